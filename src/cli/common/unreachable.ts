import { RocmForgeError } from '../../shared/errors.js';
import { errorInfo } from '../../shared/grpc/status.js';

/** Texts in gRPC's message of a connection that failed, and what each means for the address that a command was given. */
const CAUSES: readonly (readonly [RegExp, (address: string) => string])[] = [
  [/ECONNREFUSED|ENOENT/, () => 'is a gateway running there? Start one with rocmforge serve, or correct the address'],
  [
    /Protocol error/i,
    (address) =>
      `${address} does not speak gRPC. It may be the gateway's HTTP port (--http-listen): give the gRPC port (--listen)`,
  ],
  [
    /wrong version number|packet length too long/i,
    () => 'it does not speak TLS; leave --ca out, or correct the address',
  ],
  [
    /certificate|self.signed/i,
    () => 'its certificate is not one that the authorities in --ca have signed for this host',
  ],
  [/Name resolution failed|ENOTFOUND|EAI_AGAIN/, () => 'its host name cannot be resolved; correct the address'],
  [
    /ECONNRESET|dropped|socket hang up|Failed to connect/i,
    () => 'it closed the connection; if it serves TLS, give --ca',
  ],
  [
    /ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|Deadline|timed? ?out/i,
    () => 'the network does not reach it; correct the address',
  ],
];

/**
 * An error as the user of a command understands it: where no gateway answered a call, `GATEWAY_UNAVAILABLE` with why and what to
 * do. Errors that the gateway itself has sent, and all others, stay as they are.
 *
 * @param address of the gateway, as the command line names it
 */
export function unreachable(error: unknown, address: string): unknown {
  if (!(error instanceof RocmForgeError) || error.reason !== 'EXECUTOR_UNAVAILABLE') return error;
  const cause = error.cause as Parameters<typeof errorInfo>[0] | undefined;
  if (cause?.metadata !== undefined && errorInfo(cause) !== undefined) return error;
  return new RocmForgeError('GATEWAY_UNAVAILABLE', whyUnreachable(error.message, address), {}, { cause: error });
}

/** One sentence on why no gateway answers at an address, from gRPC's message. */
export function whyUnreachable(message: string, address: string): string {
  const advice = CAUSES.find(([text]) => text.test(message))?.[1](address);
  return `no gateway answers at ${address}: ${advice ?? message}`;
}
