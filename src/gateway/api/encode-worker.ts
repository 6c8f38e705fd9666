import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { ModelFiles } from '../../lib/gguf/model-files.js';
import { detokenize } from '../../lib/tokenizer/detokenizer.js';
import { createTokenizer } from '../../lib/tokenizer/tokenizer.js';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import {
  DetokenizeRequest,
  DetokenizeResponse,
  GenerateStreamRequest,
  TokenizeRequest,
  TokenizeResponse,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { decodeKnown } from '../../shared/grpc/known-fields.js';
import { decodeStrictly } from '../../shared/grpc/strict.js';
import { ChatTemplate } from '../chat/chat-template.js';
import { checkTokenIds, encodeInput, type PromptEncoder } from '../request/encoding/prompt.js';
import type {
  EncodeWorkerData,
  TextJob,
  TextJobKind,
  TextJobs,
  TextThreadMessage,
} from '../request/encoding/text-jobs.js';
import { checkLimits, checkModelName } from '../request/limits.js';
import { checkGeneration } from '../request/validate.js';
import { openPrompts } from './embedding-requests.js';
import { namingFields } from './http/field-names.js';
import { parseJson, readGeneration } from './http/json-forms.js';
import type { AnswerKind, FormDefaults } from './http/request.js';
import { answerText, type TextForm, type TextTools } from './http/text-responses.js';
import { modelNameOfJson, modelNameOfMessage } from './model-names.js';
import { PROTOCOLS } from './protocols/index.js';
import { translate } from './protocols/protocol.js';

// Streams come first: where processors are short, texts wait for the thread that serves and not the other way round.
const BACKGROUND_NICENESS = 10;
setPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1)), BACKGROUND_NICENESS);

// The thread reads the vocabulary from the model file itself: cloning 280,000 strings would stall the thread that serves.
const { modelPath, openPaths, identity, facts, template } = workerData as EncodeWorkerData;
const files = new ModelFiles(modelPath, openPaths);
const { metadata } = files.model;
const isSame = files.identity() === identity;
files.close();
const tokenizer = createTokenizer(metadata);
const chatTemplate = new ChatTemplate(metadata, tokenizer, template);

const tell = (message: TextThreadMessage): void => parentPort!.postMessage(message);

const encoder: PromptEncoder = {
  tokenizer,
  vocabularySize: facts.vocabularySize,
  encodeChat: (chat) => {
    tell({ event: 'phase', phase: 'template' });
    return chatTemplate.encode(chat, tokenizer);
  },
};

const textTools: TextTools = {
  facts,
  encoder,
  detokenize: (ids, options) => detokenize(tokenizer, ids, options),
  render: (chat) => {
    tell({ event: 'phase', phase: 'template' });
    return chatTemplate.render(chat).text;
  },
};

// A large message is checked here as a small one is where it arrives: limits first, then the prompt.
const DO: { readonly [K in TextJobKind]: (input: TextJobs[K]['input']) => TextJobs[K]['output'] } = {
  prompt: (input) => encodeInput(input, encoder),
  detokenize: ({ ids, options }) => detokenize(tokenizer, ids, options),
  textAnswer: ({ form, bytes, defaults }) => answerText(form as TextForm, bytes, defaults as FormDefaults, textTools),
  json: ({ form, bytes, defaults }) => {
    const read = readGeneration(form as AnswerKind, parseJson(bytes), defaults as FormDefaults);
    const { messages, form: answer, ignored, names } = read;
    // Before they are encoded, which takes numbers of the right size alone.
    namingFields(names, () => {
      for (const message of messages) checkGeneration(message, facts);
    });
    return {
      messages: messages.map((message) => GenerateStreamRequest.encode(message).finish()),
      form: answer,
      ignored,
      names,
    };
  },
  generation: (bytes) => {
    const request = decodeStrictly(bytes, (given) =>
      decodeKnown(given, (reader) => GenerateStreamRequest.decode(reader)),
    );
    return identified(request, () => {
      checkGeneration(request, facts);
      const inputField = request.input?.$case ?? 'input';
      return {
        request: { ...request, input: withoutTexts(request.input) },
        inputField,
        promptIds: encodeInput(request.input, encoder),
      };
    });
  },
  prompts: ({ form, bytes, defaults }) => openPrompts(form, bytes, defaults, { facts, encoder }),
  translation: ({ service, bytes }) => {
    const protocol = PROTOCOLS.get(service);
    if (protocol === undefined) throw new Error(`no protocol of ${service}`);
    const { request, options } = translate(protocol, decodeStrictly(bytes, protocol.decode));
    return { bytes: GenerateStreamRequest.encode(request).finish(), requestId: request.requestId, options };
  },
  modelName: ({ form, bytes }) => (form === 'json' ? modelNameOfJson(bytes) : modelNameOfMessage(bytes)),
  tokenize: (bytes) => {
    const request = decodeStrictly(bytes, (given) => decodeKnown(given, (reader) => TokenizeRequest.decode(reader)));
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    return TokenizeResponse.encode({ tokenIds: Array.from(encodeInput(request.input, encoder)) }).finish();
  },
  detokenizeMessage: (bytes) => {
    const request = decodeStrictly(bytes, (given) => decodeKnown(given, (reader) => DetokenizeRequest.decode(reader)));
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    checkTokenIds(request.tokenIds, facts.vocabularySize, 'token_ids');
    const options = { wholeText: true, includeSpecial: request.includeSpecialTokens };
    return DetokenizeResponse.encode({ text: detokenize(tokenizer, request.tokenIds, options) }).finish();
  },
};

/** Data that a response to an input depends on whose prompt is encoded. */
function withoutTexts(input: GenerateStreamRequest['input']): GenerateStreamRequest['input'] {
  if (input?.$case !== 'chat') return undefined;
  const { messages, continueFinalMessage } = input.value;
  return { ...input, value: { ...input.value, messages: continueFinalMessage ? messages.slice(-1) : [] } };
}

function run<K extends TextJobKind>(kind: K, input: TextJobs[K]['input']): TextJobs[K]['output'] {
  return DO[kind](input);
}

/** The error of a request names it: this thread alone has read it. */
function identified<T>({ requestId }: Pick<GenerateStreamRequest, 'requestId'>, run: () => T): T {
  try {
    return run();
  } catch (error) {
    const { reason, message, metadata: details } = asRocmForgeError(error);
    throw new RocmForgeError(reason, message, requestId === '' ? details : { ...details, request_id: requestId });
  }
}

parentPort!.on('message', ({ kind, input }: TextJob) => {
  try {
    if (!isSame) throw new RocmForgeError('MODEL_FILE_CHANGED', 'the model file was written to while it was served');
    const output = run(kind, input);
    // Ids and messages go without a copy: each was made for this answer.
    const moved = output instanceof Uint8Array || output instanceof Uint32Array ? [output.buffer as ArrayBuffer] : [];
    parentPort!.postMessage({ event: 'done', output } satisfies TextThreadMessage, moved);
  } catch (error) {
    const { reason, message, metadata: details } = asRocmForgeError(error);
    tell({ event: 'failed', reason, message, metadata: details });
  }
});
tell({ event: 'ready' });
