import type { ServiceDefinition, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import { RocmForgeError } from '../../../shared/errors.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { type RequestBytes, strictService } from '../../../shared/grpc/strict.js';

/** A service of the public server. */
export interface GrpcService {
  /** Full. */
  readonly name: string;
  readonly definition: ServiceDefinition;
  readonly handlers: UntypedServiceImplementation;
  /** The bytes that a request of each path may have. */
  readonly requestBytes: ReadonlyMap<string, number>;
}

/** A service that decodes strictly, and no more than each method's request may have. */
export function grpcService<Definition extends ServiceDefinition>(
  name: string,
  definition: Definition,
  handlers: UntypedServiceImplementation,
  sizes: { readonly [Method in keyof Definition]: RequestBytes },
): GrpcService {
  const requestBytes = Object.entries(definition).map(
    ([method, { path }]) => [path, (sizes[method as keyof Definition] as RequestBytes).most] as const,
  );
  return { name, definition: strictService(definition, sizes), handlers, requestBytes: new Map(requestBytes) };
}

/**
 * The service with methods beside its own that another project's clients know and that are refused by name, with a reason
 * that they can read: what grpc-js says of a method that it does not have is a sentence alone.
 *
 * @param methods as that project's proto names them
 */
export function withRefused(service: GrpcService, methods: readonly string[]): GrpcService {
  const definition: Record<string, ServiceDefinition[string]> = { ...service.definition };
  const handlers: UntypedServiceImplementation = { ...service.handlers };
  const requestBytes = new Map(service.requestBytes);
  for (const method of methods) {
    const path = `/${service.name}/${method}`;
    const refusal = new RocmForgeError('NOT_IMPLEMENTED', `the method ${service.name}.${method} is not supported`, {
      method,
    });
    definition[method] = {
      path,
      requestStream: false,
      // A refusal alone does not show whether a stream would have come.
      responseStream: false,
      requestSerialize: () => NOTHING,
      // Not undefined, which would be no request.
      requestDeserialize: () => NOTHING,
      responseSerialize: () => NOTHING,
      responseDeserialize: () => undefined,
    };
    handlers[method] = (_call: unknown, callback: sendUnaryData<never>) => callback(toStatus(refusal), null);
    requestBytes.set(path, MOST_REFUSED_BYTES);
  }
  return { ...service, definition, handlers, requestBytes };
}

const NOTHING = Buffer.alloc(0);
/** A request that is refused in any case need not be long. */
const MOST_REFUSED_BYTES = 4096;
