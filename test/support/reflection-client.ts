import { createRequire } from 'node:module';
import path from 'node:path';
import { type ClientDuplexStream, credentials, loadPackageDefinition, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

export interface ReflectionRequest {
  readonly listServices?: string;
  readonly fileByFilename?: string;
  readonly fileContainingSymbol?: string;
}

export interface ReflectionResponse {
  readonly listServicesResponse?: { readonly service: readonly { readonly name: string }[] };
  readonly fileDescriptorResponse?: { readonly fileDescriptorProto: readonly Buffer[] };
  readonly errorResponse?: { readonly errorCode: number; readonly errorMessage: string };
}

type ReflectionStream = ClientDuplexStream<ReflectionRequest, ReflectionResponse>;

interface ReflectionStub {
  serverReflectionInfo(): ReflectionStream;
  close(): void;
}

const library = path.dirname(createRequire(import.meta.url).resolve('@grpc/reflection/package.json'));

/** A client of a version of the reflection protocol, from the .proto file that the library carries. */
export class ReflectionClient {
  private readonly stub: ReflectionStub;

  constructor(address: string, version: 'v1' | 'v1alpha' = 'v1') {
    const file = path.join(library, 'build', 'proto', 'grpc', 'reflection', version, 'reflection.proto');
    const loaded = loadPackageDefinition(loadSync(file, { oneofs: false })) as unknown as {
      grpc: { reflection: Record<string, { ServerReflection: new (...args: unknown[]) => ReflectionStub }> };
    };
    const { ServerReflection } = loaded.grpc.reflection[version] as {
      ServerReflection: new (...args: unknown[]) => ReflectionStub;
    };
    this.stub = new ServerReflection(address, credentials.createInsecure());
  }

  /** An open call. */
  open(): ReflectionStream {
    return this.stub.serverReflectionInfo();
  }

  /** Asks in one call and ends it. Rejects with the gRPC error. */
  ask(...requests: readonly ReflectionRequest[]): Promise<ReflectionResponse[]> {
    return new Promise((resolve, reject) => {
      const call = this.open();
      const answers: ReflectionResponse[] = [];
      call.on('data', (answer: ReflectionResponse) => answers.push(answer));
      call.on('error', (error: ServiceError) => reject(error));
      call.on('end', () => resolve(answers));
      for (const request of requests) call.write(request);
      call.end();
    });
  }

  close(): void {
    this.stub.close();
  }
}
