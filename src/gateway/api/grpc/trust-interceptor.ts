import { randomUUID } from 'node:crypto';
import { status as grpcStatus, type Metadata, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js';
import { asRocmForgeError, type ErrorReason } from '../../../shared/errors.js';
import { errorInfo, toStatus } from '../../../shared/grpc/status.js';
import type { Trust } from '../../trust/trust.js';

/** Those who balance load and restart processes have no credential. */
const OPEN_SERVICE = '/grpc.health.v1.Health/';

/** Identified caller of a call. */
interface Identified {
  readonly principal: string;
  /** See {@link ProxiedClients.peerOf}. */
  readonly peer: string | undefined;
}

/** By the metadata that a call's handler gets. */
const identified = new WeakMap<Metadata, Identified>();

/**
 * Whom a call counts for.
 *
 * @throws Error for a call that nobody has identified: a server without the interceptor serves nobody
 */
export function principalOf(metadata: Metadata): string {
  const found = identified.get(metadata);
  if (found === undefined) throw new Error('a call reached its handler without being identified');
  return found.principal;
}

/** The address that a call counts for, where that is not its connection's own. */
export function peerTold(metadata: Metadata): string | undefined {
  return identified.get(metadata)?.peer;
}

/** Notes whom a call counts for. */
export function setPrincipal(metadata: Metadata, principal: string, peer?: string): void {
  identified.set(metadata, { principal, peer });
}

/** Ids that a trailer can have. */
const IS_HEADER = /^[\x21-\x7e]{1,128}$/;

/**
 * Identifies and counts each call by its headers, before its request is read. Health alone is open to everybody.
 *
 * @param generations paths of the methods that generate
 */
export function trustInterceptor(trust: Trust, generations: ReadonlySet<string>): ServerInterceptor {
  return ({ path }, call) => {
    if (path.startsWith(OPEN_SERVICE)) return new ServerInterceptingCall(call);
    let client = '';
    let hasBegun = false;
    let requestId: string | undefined;
    const admit = async (metadata: Metadata, pass: (metadata: Metadata) => void): Promise<void> => {
      const peer = trust.proxied.peerOf(call.getPeer(), {
        'x-forwarded-for': listOf(metadata, 'x-forwarded-for'),
        forwarded: listOf(metadata, 'forwarded'),
      });
      try {
        const principal = await trust.identify({
          authorization: metadata.get('authorization').map(String),
          certificate: () => call.getAuthContext().sslPeerCertificate,
          peer,
        });
        client = principal;
        trust.limiter.admit(principal, generations.has(path));
        setPrincipal(metadata, principal, peer);
        // No handler needs it, and what nobody has cannot be told.
        metadata.remove('authorization');
      } catch (error) {
        const id = randomUUID();
        trust.rejections.note('grpc', client === '' ? peer : client, asRocmForgeError(error), { requestId: id });
        const status = toStatus(error);
        status.metadata?.set('x-request-id', id);
        call.sendStatus(status);
        return;
      }
      pass(metadata);
    };
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, pass) => void admit(metadata, pass),
          onReceiveMessage: (message: { requestId?: string }, pass) => {
            // Here and not in the handler: a request that it rejects has an id, too.
            if (message.requestId === '' && generations.has(path)) message.requestId = randomUUID();
            requestId = message.requestId;
            pass(message);
          },
        }),
      sendMetadata: (metadata, next) => {
        hasBegun = true;
        next(metadata);
      },
      // The audit log reports the end of a generation that has begun.
      sendStatus: (status, next) => {
        const { code, metadata } = status;
        const isRejected = code !== grpcStatus.OK && !hasBegun && metadata;
        const info = isRejected ? errorInfo({ metadata }) : undefined;
        if (info !== undefined) {
          requestId ??= info.metadata.request_id;
          trust.rejections.note('grpc', client, { ...info, reason: info.reason as ErrorReason }, { requestId });
          if (requestId !== undefined && IS_HEADER.test(requestId)) metadata?.set('x-request-id', requestId);
        }
        next(status);
      },
    });
  };
}

/** The values of a header as one list; undefined where there is none. */
function listOf(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name);
  return values.length === 0 ? undefined : values.join(',');
}
