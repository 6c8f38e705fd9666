import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire';
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import { RocmForgeError } from '../errors.js';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// proto3 strings are UTF-8; the library would replace bad bytes, and a model would read text that nobody sent.
configureTextEncoding({ ...getTextEncoding(), decodeUtf8: (bytes: Uint8Array) => decoder.decode(bytes) });

/** What a handler receives in place of a request that could not be decoded. */
export class MalformedRequest {
  constructor(readonly error: RocmForgeError) {}
}

/**
 * The service with request decoders that do not throw: grpc-js answers INTERNAL when one does, and the fault is the
 * client's. Handlers see a {@link MalformedRequest}, for {@link wellFormed} to turn into INVALID_ARGUMENT.
 */
export function strictService<S extends ServiceDefinition>(service: S): S {
  const strict: Record<string, MethodDefinition<unknown, unknown>> = {};
  for (const [name, method] of Object.entries(service)) {
    strict[name] = {
      ...method,
      requestDeserialize: (bytes: Buffer): unknown => {
        try {
          return method.requestDeserialize(bytes);
        } catch (error) {
          return new MalformedRequest(
            new RocmForgeError('MALFORMED_MESSAGE', `the request is no valid message: ${(error as Error).message}`),
          );
        }
      },
    };
  }
  return strict as S;
}

/** The request, or the error that it is none. */
export function wellFormed<T>(request: T): T {
  if (request instanceof MalformedRequest) throw request.error;
  return request;
}
