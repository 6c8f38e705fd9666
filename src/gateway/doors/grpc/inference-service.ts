import type { BinaryReader } from '@bufbuild/protobuf/wire';
import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import {
  DetokenizeRequest,
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
import type { Inference } from '../inference.js';
import { answer, answerStreamOf } from './answers.js';
import { clientOf } from './caller.js';
import { encodeStreamResponse } from './chunk-encoding.js';
import { type GrpcService, grpcService } from './grpc-service.js';
import type { LoadReport } from './load-report.js';

export const INFERENCE_SERVICE = 'rocmforge.v1.InferenceService';

/** The public gRPC API, to register with a server. */
export function inferenceService(inference: Inference, load: LoadReport): GrpcService {
  const handlers: InferenceServiceServer = {
    generate: (call, callback) => void generate(inference, load, call, callback),
    generateStream: (call) => void generateStream(inference, load, call),
    tokenize: (call, callback) => answer(call, callback, (request, client) => inference.tokenize(request, client)),
    detokenize: (call, callback) => answer(call, callback, (request, client) => inference.detokenize(request, client)),
    listModels: (call, callback) => answer(call, callback, async () => inference.listModels()),
    getModel: (call, callback) => answer(call, callback, async (request) => inference.getModel(request)),
  };
  const generateStreamMethod = {
    ...InferenceServiceService.generateStream,
    responseSerialize: encodeStreamResponse,
  };
  const { generate: generateMethod, tokenize, detokenize, listModels, getModel } = InferenceServiceService;
  const methods = {
    generate: { ...generateMethod, requestDeserialize: known(GenerateRequest) },
    generateStream: { ...generateStreamMethod, requestDeserialize: known(GenerateStreamRequest) },
    tokenize: { ...tokenize, requestDeserialize: known(TokenizeRequest) },
    detokenize: { ...detokenize, requestDeserialize: known(DetokenizeRequest) },
    listModels: { ...listModels, requestDeserialize: known(ListModelsRequest) },
    getModel: { ...getModel, requestDeserialize: known(GetModelRequest) },
  };
  return grpcService(INFERENCE_SERVICE, methods, handlers, inference.requestBytes);
}

/** A decoder that refuses fields which the message does not have. */
const known =
  <T>(message: { decode(reader: BinaryReader): T }) =>
  (bytes: Buffer): T =>
    decodeKnown(bytes, (reader) => message.decode(reader));

async function generateStream(
  inference: Inference,
  load: LoadReport,
  call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>,
): Promise<void> {
  const stream = answerStreamOf(call, load);
  try {
    await inference.generateStream(wellFormed(call.request), clientOf(call), stream);
  } catch (error) {
    call.emit('error', load.statusOf(error));
  }
}

async function generate(
  inference: Inference,
  load: LoadReport,
  call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
  callback: sendUnaryData<GenerateResponse>,
): Promise<void> {
  try {
    const response = await inference.generate(wellFormed(call.request), clientOf(call));
    if (response !== undefined) callback(null, response, load.trailers());
  } catch (error) {
    callback(load.statusOf(error), null);
  }
}
