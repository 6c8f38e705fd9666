import type { BinaryReader } from '@bufbuild/protobuf/wire';
import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { RocmForgeError } from '../../../shared/errors.js';
import {
  DetokenizeRequest,
  EmbedRequest,
  GenerateRequest,
  type GenerateResponse,
  GenerateStreamRequest,
  type GenerateStreamResponse,
  GetModelRequest,
  type InferenceServiceServer,
  InferenceServiceService,
  ListModelsRequest,
  TokenizeRequest,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import { decodeKnown } from '../../../shared/grpc/known-fields.js';
import { wellFormed } from '../../../shared/grpc/strict.js';
import type { Models } from '../models.js';
import { clientOf } from './caller.js';
import { encodeStreamResponse } from './chunk-encoding.js';
import { type GrpcService, grpcService } from './grpc-service.js';
import type { LoadReport } from './load-report.js';
import { answer, responseStreamOf } from './unary-responses.js';

export const INFERENCE_SERVICE = 'rocmforge.v1.InferenceService';

/** The public gRPC API, to register with a server. */
export function inferenceService(models: Models, load: LoadReport): GrpcService {
  const handlers: InferenceServiceServer = {
    generate: (call, callback) => void generate(models, load, call, callback),
    generateStream: (call) => void generateStream(models, load, call),
    tokenize: (call, callback) =>
      answer(call, callback, async (request, client) => {
        const { inference } = await models.ofMessage(request, client);
        return inference.tokenize(request, client);
      }),
    detokenize: (call, callback) =>
      answer(call, callback, async (request, client) => {
        const { inference } = await models.ofMessage(request, client);
        return inference.detokenize(request, client);
      }),
    embed: (call, callback) =>
      answer(call, callback, async (request, client) => {
        const { embeddings } = await models.ofMessage(request, client);
        const response = await embeddings.embed(request, client);
        if (response === undefined) throw new RocmForgeError('INTERNAL', 'the client has disconnected');
        return response;
      }),
    listModels: (call, callback) => answer(call, callback, async () => models.listModels()),
    getModel: (call, callback) => answer(call, callback, async (request) => models.getModel(request)),
  };
  const generateStreamMethod = {
    ...InferenceServiceService.generateStream,
    responseSerialize: encodeStreamResponse,
  };
  const { generate: generateMethod, tokenize, detokenize, embed, listModels, getModel } = InferenceServiceService;
  const methods = {
    generate: { ...generateMethod, requestDeserialize: known(GenerateRequest) },
    generateStream: { ...generateStreamMethod, requestDeserialize: known(GenerateStreamRequest) },
    tokenize: { ...tokenize, requestDeserialize: known(TokenizeRequest) },
    detokenize: { ...detokenize, requestDeserialize: known(DetokenizeRequest) },
    embed: { ...embed, requestDeserialize: known(EmbedRequest) },
    listModels: { ...listModels, requestDeserialize: known(ListModelsRequest) },
    getModel: { ...getModel, requestDeserialize: known(GetModelRequest) },
  };
  return grpcService(INFERENCE_SERVICE, methods, handlers, models.requestBytes);
}

/** A decoder that refuses fields which the message does not have. */
const known =
  <T>(message: { decode(reader: BinaryReader): T }) =>
  (bytes: Buffer): T =>
    decodeKnown(bytes, (reader) => message.decode(reader));

async function generateStream(
  models: Models,
  load: LoadReport,
  call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>,
): Promise<void> {
  const stream = responseStreamOf(call, load);
  try {
    const request = wellFormed(call.request);
    const client = clientOf(call);
    const { inference } = await models.ofMessage(request, client);
    await inference.generateStream(request, client, stream);
  } catch (error) {
    call.emit('error', load.statusOf(error));
  }
}

async function generate(
  models: Models,
  load: LoadReport,
  call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
  callback: sendUnaryData<GenerateResponse>,
): Promise<void> {
  try {
    const request = wellFormed(call.request);
    const client = clientOf(call);
    const { inference } = await models.ofMessage(request, client);
    const response = await inference.generate(request, client);
    if (response !== undefined) callback(null, response, load.trailers());
  } catch (error) {
    callback(load.statusOf(error), null);
  }
}
