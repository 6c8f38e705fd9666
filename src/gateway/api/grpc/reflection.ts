import type { Server, ServerDuplexStream, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { readDescriptorSet } from '../../../shared/grpc/descriptors.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { RefusedRequest, strictService, tooLarge } from '../../../shared/grpc/strict.js';

/** Limit of all requests of one call, in bytes: some hundred questions. */
export const MOST_CALL_BYTES = 16 * 1024;
/** A question names a symbol or a file, and its answer repeats it. */
export const MOST_QUESTION_BYTES = 1024;

/** Bytes that a call of each path of reflection may have. */
export const REFLECTION_BYTES: ReadonlyMap<string, number> = new Map(
  ['v1', 'v1alpha'].map((version) => [
    `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    MOST_CALL_BYTES,
  ]),
);

/**
 * Serves the reflection protocol (grpc/grpc `doc/server-reflection.md`), v1 and v1alpha, from the descriptors of buf.
 *
 * The library is given those as they are: what it would make of a loaded package has other file names and no imports, and
 * clients cannot resolve it.
 *
 * @param services full names of those that are listed
 */
export function addReflection(server: Pick<Server, 'addService'>, services: readonly string[]): void {
  const everything = { all: { fileDescriptorProtos: readDescriptorSet() } };
  const reflection = new ReflectionService(
    everything as unknown as ConstructorParameters<typeof ReflectionService>[0],
    {
      services: [...services],
    },
  );
  reflection.addToServer({
    addService: (definition, handlers) =>
      server.addService(bounded(definition), {
        ServerReflectionInfo: inTurn(handlers as UntypedServiceImplementation),
      }),
  });
}

/** The service with questions that are refused when they are too long or no messages. */
function bounded(service: ServiceDefinition): ServiceDefinition {
  const strict = strictService(service);
  const bound = (method: ServiceDefinition[string]): ServiceDefinition[string] => ({
    ...method,
    requestDeserialize: (bytes: Buffer) =>
      bytes.length > MOST_QUESTION_BYTES
        ? new RefusedRequest(tooLarge(bytes.length, MOST_QUESTION_BYTES))
        : method.requestDeserialize(bytes),
  });
  return Object.fromEntries(Object.entries(strict).map(([name, method]) => [name, bound(method)]));
}

type ReflectionCall = ServerDuplexStream<unknown, unknown>;

/** The library's handler, reading no further question while answers wait for their reader: they are longer by far. */
function inTurn({ ServerReflectionInfo: handle }: UntypedServiceImplementation): (call: ReflectionCall) => void {
  return (call) => {
    const stream = {
      on: (event: string, listener: (message: unknown) => void) =>
        call.on(event, (message: unknown) => {
          if (call.writableEnded) return;
          if (message instanceof RefusedRequest) call.emit('error', toStatus(message.error));
          else listener(message);
        }),
      write: (answer: unknown) => {
        if (call.write(answer)) return;
        call.pause();
        call.once('drain', () => call.resume());
      },
      end: () => call.end(),
    };
    (handle as (call: unknown) => void)(stream);
  };
}
