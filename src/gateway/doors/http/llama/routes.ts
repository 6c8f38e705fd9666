import { RocmForgeError } from '../../../../shared/errors.js';
import type { ChatInput } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { EncodedResponse } from '../../../../shared/grpc/strict.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { areIds, Fields } from '../fields.js';
import { parseJson } from '../json-forms.js';
import { messagesOf } from '../openai/chat-request.js';
import { toolsOf } from '../openai/tool-fields.js';

/** llama.cpp's `POST /tokenize`. */
export async function tokenize(exchange: Exchange, { inference, facts }: HttpContext): Promise<void> {
  const fields = new Fields(parseJson(await exchange.body()));
  const text = fields.string('content') ?? fields.refuse('content', 'is missing');
  const addSpecial = fields.boolean('add_special') ?? false;
  const parseSpecial = fields.boolean('parse_special') ?? true;
  const withPieces = fields.boolean('with_pieces') ?? false;
  fields.end();
  const tokens = text === '' && !addSpecial ? [] : await idsOf(text);
  exchange.json({ tokens: withPieces ? tokens.map((id) => ({ id, piece: pieceOf(id) })) : tokens });

  async function idsOf(value: string): Promise<readonly number[]> {
    const input = { $case: 'text', value: { text: value, parseSpecial, addSpecial } } as const;
    const answer = await inference.tokenize({ model: '', input }, exchange.client);
    if (answer instanceof EncodedResponse) throw new RocmForgeError('INTERNAL', 'an answer came encoded');
    return answer.tokenIds;
  }
  /** Its text, or its bytes where they are no text by themselves. */
  function pieceOf(id: number): string | readonly number[] {
    const bytes = facts.tokenBytes(id);
    const piece = Buffer.from(bytes).toString();
    return piece.includes('\ufffd') ? [...bytes] : piece;
  }
}

/** llama.cpp's `POST /detokenize`. */
export async function detokenize(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  const fields = new Fields(parseJson(await exchange.body()));
  const tokenIds = fields.any('tokens');
  if (!areIds(tokenIds)) return fields.refuse('tokens', 'is no list of token ids');
  fields.end();
  const message = { model: '', tokenIds: [...tokenIds], includeSpecialTokens: true };
  const answer = await inference.detokenize(message, exchange.client);
  if (answer instanceof EncodedResponse) throw new RocmForgeError('INTERNAL', 'an answer came encoded');
  exchange.json({ content: answer.text });
}

/** llama.cpp's `POST /apply-template`: what a conversation is to the model. */
export async function applyTemplate(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  const fields = new Fields(parseJson(await exchange.body()));
  const chat: ChatInput = {
    messages: messagesOf(fields),
    tools: toolsOf(fields),
    addGenerationPrompt: fields.boolean('add_generation_prompt'),
  };
  fields.passOver('model');
  fields.notBuilt('chat_template_kwargs');
  fields.end();
  exchange.json({ prompt: await inference.render(chat, exchange.client) });
}

/** llama.cpp's `GET /props`, as far as it is true here. */
export async function props(exchange: Exchange, { facts, inference, sequences }: HttpContext): Promise<void> {
  const [model] = inference.listModels().models;
  exchange.json({
    default_generation_settings: { n_ctx: facts.contextLength },
    total_slots: sequences(),
    model_alias: facts.model,
    chat_template: facts.chatTemplate ?? '',
    bos_token: facts.bosToken,
    eos_token: facts.eosToken,
    build_info: facts.version,
    is_sleeping: model?.ready !== true,
  });
}

/** llama.cpp's `GET /health`, which load balancers ask. */
export async function health(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  if (inference.listModels().models[0]?.ready) exchange.json({ status: 'ok' });
  else throw new RocmForgeError('MODEL_LOADING', 'the model is not served now', { retry_delay_ms: '1000' });
}
