import { parentPort, workerData } from 'node:worker_threads';
import { asRocmForgeError, type ErrorReason, RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { contentIdentity } from '../../shared/gguf/content-identity.js';
import { readGguf } from '../../shared/gguf/reader.js';
import { ChatTemplate, type Conversation } from '../chat/chat-template.js';
import { createTokenizer, type PromptOptions } from './tokenizer.js';

/** What the thread is started with. */
export interface EncodeWorkerData {
  readonly modelPath: string;
  /** What the file must hold, see {@link contentIdentity}: a thread must not encode with another vocabulary. */
  readonly identity: string;
}

/** A prompt to encode; `id` ties the answer to it. */
export type EncodeJob = { readonly id: number } & (
  | { readonly text: string; readonly options: PromptOptions }
  | { readonly conversation: Conversation }
);

/** The ids, or why there are none. */
export type EncodeAnswer = { readonly id: number } & (
  | { readonly ids: Int32Array }
  | { readonly reason: ErrorReason; readonly message: string; readonly metadata: Readonly<Record<string, string>> }
);

// The thread reads the vocabulary from the model file itself: cloning 280,000 strings would stall the thread that serves.
const { modelPath, identity } = workerData as EncodeWorkerData;
const source = new FileByteSource(modelPath);
const { metadata, dataOffset } = readGguf(source);
const isSame = contentIdentity(source, dataOffset) === identity;
source.close();
const tokenizer = createTokenizer(metadata);
const chatTemplate = new ChatTemplate(metadata, tokenizer);

parentPort!.on('message', (job: EncodeJob) => {
  try {
    if (!isSame) throw new RocmForgeError('MODEL_FILE_CHANGED', 'the model file was written to while it was served');
    const ids =
      'conversation' in job
        ? chatTemplate.encode(job.conversation, tokenizer)
        : tokenizer.encodePrompt(job.text, job.options);
    const answer: EncodeAnswer = { id: job.id, ids };
    parentPort!.postMessage(answer, [ids.buffer as ArrayBuffer]);
  } catch (error) {
    const { reason, message, metadata: details } = asRocmForgeError(error);
    parentPort!.postMessage({ id: job.id, reason, message, metadata: details } satisfies EncodeAnswer);
  }
});
