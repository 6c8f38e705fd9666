import { RocmForgeError } from '../../../../shared/errors.js';
import { EncodedResponse } from '../../../../shared/grpc/strict.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { readGeneration } from '../json-forms.js';

/** OpenAI's `GET /v1/models`. */
export async function listModels(exchange: Exchange, { inference, started }: HttpContext): Promise<void> {
  const data = inference.listModels().models.map((model) => modelOf(model, started));
  exchange.json({ object: 'list', data });
}

/** How many tokens a chat's request has: llama.cpp's `POST /v1/chat/completions/input_tokens`. */
export async function countTokens(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  const [message] = readGeneration('chat', await exchange.body()).messages;
  const { input } = message ?? {};
  if (message === undefined || input?.$case !== 'chat') throw new RocmForgeError('INTERNAL', 'a chat without one');
  const answer = await inference.tokenize({ model: message.model, input }, exchange.client);
  if (answer instanceof EncodedResponse) throw new RocmForgeError('INTERNAL', 'an answer came encoded');
  exchange.json({ object: 'response.input_tokens', input_tokens: answer.tokenIds.length });
}

/** OpenAI's `GET /v1/models/{model}`. */
export async function getModel(exchange: Exchange, { inference, started }: HttpContext, name: string): Promise<void> {
  const { model } = inference.getModel({ model: name });
  exchange.json(model && modelOf(model, started));
}

/** `meta` as llama.cpp has it. */
function modelOf(
  model: { name: string; contextLength: number; vocabularySize: number; parameters: bigint },
  started: number,
): unknown {
  const { name, contextLength, vocabularySize, parameters } = model;
  return {
    id: name,
    object: 'model',
    created: started,
    owned_by: 'rocmforge',
    max_model_len: contextLength,
    meta: { n_vocab: vocabularySize, n_ctx: contextLength, n_params: Number(parameters) },
  };
}
