import { type Metadata, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js';
import { toStatus } from '../../../shared/grpc/status.js';
import type { Trust } from '../../trust/trust.js';
import { peerOf } from '../peer.js';

/** Those who balance load and restart processes have no credential. */
const OPEN_SERVICE = '/grpc.health.v1.Health/';

/** Who was found to send a call, by the metadata that its handler gets. */
const principals = new WeakMap<Metadata, string>();

/**
 * Whom a call counts for.
 *
 * @throws Error for a call that nobody has identified: a server without the interceptor serves nobody
 */
export function principalOf(metadata: Metadata): string {
  const principal = principals.get(metadata);
  if (principal === undefined) throw new Error('a call reached its handler without being identified');
  return principal;
}

/** Notes whom a call counts for. */
export function setPrincipal(metadata: Metadata, principal: string): void {
  principals.set(metadata, principal);
}

/**
 * Identifies and counts each call by its headers, before its request is read. Health alone is open to everybody.
 *
 * @param generations paths of the methods that generate
 */
export function trustInterceptor(trust: Trust, generations: ReadonlySet<string>): ServerInterceptor {
  return ({ path }, call) => {
    if (path.startsWith(OPEN_SERVICE)) return new ServerInterceptingCall(call);
    const admit = async (metadata: Metadata, pass: (metadata: Metadata) => void): Promise<void> => {
      try {
        const principal = await trust.identify({
          authorization: metadata.get('authorization').map(String),
          certificate: () => call.getAuthContext().sslPeerCertificate,
          peer: peerOf(call),
        });
        trust.limiter.admit(principal, generations.has(path));
        setPrincipal(metadata, principal);
        // No handler needs it, and what nobody has cannot be told.
        metadata.remove('authorization');
      } catch (error) {
        call.sendStatus(toStatus(error));
        return;
      }
      pass(metadata);
    };
    return new ServerInterceptingCall(call, {
      start: (next) => next({ onReceiveMetadata: (metadata, pass) => void admit(metadata, pass) }),
    });
  };
}
