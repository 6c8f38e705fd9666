import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire';
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import { RocmForgeError } from '../errors.js';
import type { EventLoopBudget } from '../event-loop-budget.js';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// proto3 strings are UTF-8; the library would replace bad bytes, and a model would read text that nobody sent.
configureTextEncoding({ ...getTextEncoding(), decodeUtf8: (bytes: Uint8Array) => decoder.decode(bytes) });

/** Request that a handler receives in place of one that is refused as it arrives. */
export class RefusedRequest {
  constructor(readonly error: RocmForgeError) {}
}

/** Request that a handler receives in place of one that is too large to be decoded while others wait. */
export class LargeRequest {
  constructor(readonly bytes: Uint8Array) {}
}

/** A response that was encoded elsewhere. */
export class EncodedResponse {
  constructor(readonly bytes: Uint8Array) {}
}

/** Size limits of a method's requests. */
export interface RequestBytes {
  /** Larger ones are refused before they are decoded. */
  readonly most: number;
  /** Larger ones reach the handler as a {@link LargeRequest}. */
  readonly inline: number;
  /** When it is spent, so do those of more than {@link ALWAYS_INLINE_BYTES}. */
  readonly budget: EventLoopBudget;
}

/** Requests up to this size are decoded at once in any case: handing them on would take as long. */
export const ALWAYS_INLINE_BYTES = 2048;

/**
 * The service with request decoders that do not throw: grpc-js answers INTERNAL when one does, and the fault is the
 * client's. Handlers see a {@link RefusedRequest}, for {@link wellFormed} to turn into its error, or a {@link LargeRequest}.
 *
 * @param sizes of methods' requests; those that are not named are decoded whatever their size
 */
export function strictService<S extends ServiceDefinition>(
  service: S,
  sizes: { readonly [Name in keyof S]?: RequestBytes } = {},
): S {
  const strict: Record<string, MethodDefinition<unknown, unknown>> = {};
  for (const [name, method] of Object.entries(service)) {
    const size = sizes[name];
    const decode = (bytes: Buffer): unknown => decodeStrictly(bytes, method.requestDeserialize);
    strict[name] = {
      ...method,
      requestDeserialize: (bytes: Buffer): unknown => {
        try {
          if (size === undefined) return decode(bytes);
          if (bytes.length > size.most) throw tooLarge(bytes.length, size.most);
          if (bytes.length <= ALWAYS_INLINE_BYTES) return decode(bytes);
          if (bytes.length > size.inline || size.budget.isSpent) return new LargeRequest(bytes);
          return size.budget.spend(() => decode(bytes));
        } catch (error) {
          return new RefusedRequest(error as RocmForgeError);
        }
      },
      responseSerialize: (response: unknown): Buffer =>
        response instanceof EncodedResponse ? asBuffer(response.bytes) : method.responseSerialize(response),
    };
  }
  return strict as S;
}

/** The error of a request of too many bytes. */
export function tooLarge(bytes: number, most: number): RocmForgeError {
  return new RocmForgeError('MESSAGE_TOO_LARGE', `the request has ${bytes} bytes, more than the ${most} allowed`);
}

/** @throws RocmForgeError `MALFORMED_MESSAGE`, or what the decoder refuses by name */
export function decodeStrictly<B extends Uint8Array, T>(bytes: B, decode: (bytes: B) => T): T {
  try {
    return decode(bytes);
  } catch (error) {
    if (error instanceof RocmForgeError) throw error;
    throw new RocmForgeError('MALFORMED_MESSAGE', `the request is not a valid message: ${(error as Error).message}`);
  }
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The request, or the error that it is none. */
export function wellFormed<T>(request: T): T {
  if (request instanceof RefusedRequest) throw request.error;
  return request;
}
