import path from 'node:path';
import { RocmForgeError } from '../shared/errors.js';
import { FileByteSource } from '../shared/gguf/byte-source.js';
import { readModelParameters } from '../shared/gguf/model-parameters.js';
import { readGguf } from '../shared/gguf/reader.js';
import { ChatTemplate } from './chat/chat-template.js';
import { EncodeService } from './tokenizer/encode-service.js';
import { createTokenizer, type Tokenizer } from './tokenizer/tokenizer.js';

/** What the gateway itself knows of the model it serves: all but the weights. */
export interface ServedModel {
  /** What requests call it. */
  readonly name: string;
  readonly path: string;
  readonly architecture: string;
  readonly fingerprint: string;
  /** Number of parameters. */
  readonly parameters: number;
  /** The most tokens of prompt and completion together that are granted. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  readonly tokenizer: Tokenizer;
  readonly encoder: EncodeService;
  readonly hasChatTemplate: boolean;
}

/** The host's default: contexts beyond this are granted only when they are asked for. */
const DEFAULT_CONTEXT = 8192;

/**
 * Reads a model file's metadata.
 *
 * @param maxContext the context to grant; default the model's, at most 8,192
 * @throws RocmForgeError of the GGUF reader or the tokenizer; `INVALID_OPTION` for a context the model does not have
 */
export function readServedModel(file: string, options: { name?: string; maxContext?: number }): ServedModel {
  const source = new FileByteSource(file);
  try {
    const gguf = readGguf(source);
    const parameters = readModelParameters(gguf);
    if (options.maxContext !== undefined && options.maxContext > parameters.contextLength) {
      throw new RocmForgeError(
        'INVALID_OPTION',
        `--max-context ${options.maxContext} is more than the model's ${parameters.contextLength}`,
      );
    }
    const tokenizer = createTokenizer(gguf.metadata);
    const chatTemplate = new ChatTemplate(gguf.metadata, tokenizer);
    let elements = 0;
    for (const tensor of gguf.tensors.values()) elements += tensor.dims.reduce((product, size) => product * size, 1);
    return {
      name: options.name ?? path.basename(file, '.gguf'),
      path: file,
      architecture: parameters.architecture,
      fingerprint: gguf.fingerprint,
      parameters: elements,
      contextLength: options.maxContext ?? Math.min(parameters.contextLength, DEFAULT_CONTEXT),
      vocabularySize: parameters.vocabularySize,
      tokenizer,
      encoder: new EncodeService({ modelPath: file, tokenizer, chatTemplate }),
      hasChatTemplate: chatTemplate.isAvailable,
    };
  } finally {
    source.close();
  }
}
