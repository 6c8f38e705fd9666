import { type UnusedTensors, unusedTensors } from '../../lib/gguf/harmless.js';
import type { GgufMetadata } from '../../lib/gguf/metadata.js';
import { readServableModel } from '../../lib/gguf/servable-model.js';
import { nameOf } from '../../lib/gguf/split.js';
import { type FillInTokens, fillInTokens } from '../../lib/tokenizer/fill-in-tokens.js';
import { createTokenizer, type Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { RocmForgeError } from '../../shared/errors.js';
import { DEFAULT_CONTEXT } from '../../shared/step-limits.js';
import {
  type AnswerFormat,
  answerFormatOf,
  mentionsTools,
  type ReasoningParser,
  type ToolParser,
} from '../chat/answer/answer-format.js';
import { ChatTemplate, type TemplateSettings } from '../chat/chat-template.js';
import { embeddingFacts } from './embedding-facts.js';
import type { LimitFacts } from './limits.js';
import { ModelFile } from './model-file.js';
import type { Pooling } from './pooling.js';

/** Everything that the gateway itself knows of the model it serves: all but the weights. */
export interface ServedModel {
  /** Name of the model in requests. */
  readonly name: string;
  /** Open until the gateway ends. */
  readonly file: ModelFile;
  readonly architecture: string;
  /** Number of parameters. */
  readonly parameters: number;
  /** The most tokens of prompt and completion together that are granted. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  /** Limits of requests. */
  readonly facts: LimitFacts;
  readonly tokenizer: Tokenizer;
  readonly hasChatTemplate: boolean;
  /** The template of conversations without tools. */
  readonly chatTemplate: string | undefined;
  /** Layers have states, which an executor keeps a slot, and snapshots of. */
  readonly isRecurrent: boolean;
  /** The file has a block that predicts further tokens, and its family runs it. */
  readonly predicts: boolean;
  /** Tokens to fill in the middle of a text; absent for a model that was not trained for it. */
  readonly fillIn: FillInTokens | undefined;
  /** Tensors of the file that its texts are not computed with. */
  readonly unused: readonly UnusedTensors[];
}

/** Families whose prediction block the executor runs. */
const PREDICTING_FAMILIES: readonly string[] = ['qwen35', 'qwen35moe', 'glm4moe'];

export interface ServedModelOptions {
  readonly name?: string;
  /** The context to grant; default the model's, at most 8,192. */
  readonly maxContext?: number;
  /** The most tokens of a step; 0 or absent: as the executor chooses. */
  readonly maxStepTokens?: number;
  readonly maxPriority?: number;
  /** Chat template: the source in place of the file's. */
  readonly template?: TemplateSettings;
  /** True if requests may call the model as they like. */
  readonly anyName?: boolean;
  /** Other names by which requests may call it. */
  readonly aliases?: readonly string[];
  /** The seed of requests that give none. */
  readonly seed?: bigint;
  /** The model's format of calls; default: the one that its chat template shows. */
  readonly toolParser?: ToolParser;
  /** The model's format of reasoning; default: the one that its chat template shows. */
  readonly reasoningParser?: ReasoningParser | 'none';
  /** Pooling of embeddings; default: as the file says. */
  readonly pooling?: Pooling;
}

/**
 * Opens a model file and reads its metadata.
 *
 * @throws RocmForgeError of the GGUF reader or the tokenizer; `MODEL_UNSUPPORTED` for what the executor would refuse, too; `INVALID_OPTION` for a context the model does not have
 */
export function readServedModel(file: string, options: ServedModelOptions): ServedModel {
  const opened = new ModelFile(file);
  try {
    const gguf = opened.header;
    const parameters = readServableModel(gguf);
    if (options.maxContext !== undefined && options.maxContext > parameters.contextLength) {
      throw new RocmForgeError(
        'INVALID_OPTION',
        `--max-context ${options.maxContext} is more than the context of ${file}, ${parameters.contextLength}`,
      );
    }
    const tokenizer = createTokenizer(gguf.metadata);
    const chatTemplate = openTemplate(gguf.metadata, tokenizer, options.template);
    if (options.template?.source !== undefined) checkTemplate(chatTemplate);
    let elements = 0;
    for (const tensor of gguf.tensors.values()) elements += tensor.dims.reduce((product, size) => product * size, 1);
    const { vocabularySize } = parameters;
    const name = options.name ?? nameOf(file);
    const granted = options.maxContext ?? Math.min(parameters.contextLength, DEFAULT_CONTEXT);
    // An encoder computes an input in one step.
    const mostRows = (parameters.traits.isEncoder && options.maxStepTokens) || Number.POSITIVE_INFINITY;
    const contextLength = Math.min(granted, mostRows);
    const longestTokenBytes = longestToken(tokenizer);
    const { maxPriority = 0, anyName = false } = options;
    const facts = {
      modelName: name,
      contextLength,
      vocabularySize,
      longestTokenBytes,
      maxPriority,
      takesAnyName: anyName,
      modelAliases: options.aliases,
      defaultSeed: options.seed,
      embeddings: embeddingFacts(gguf, parameters, tokenizer, options.pooling),
      ...answersOf(gguf.metadata, {
        ...options,
        chatTemplate: options.template?.source,
        toolsFallback: options.template?.describesTools,
      }),
    };
    const hasChatTemplate = chatTemplate.isAvailable;
    return {
      name,
      file: opened,
      architecture: parameters.architecture,
      parameters: elements,
      contextLength,
      vocabularySize,
      facts,
      tokenizer,
      hasChatTemplate,
      chatTemplate: options.template?.source ?? gguf.metadata.string('tokenizer.chat_template'),
      isRecurrent: parameters.traits.recurrent !== undefined,
      predicts: parameters.predictionLayers === 1 && PREDICTING_FAMILIES.includes(parameters.family),
      fillIn: fillInTokens(gguf.metadata, tokenizer),
      unused: unusedTensors(gguf),
    };
  } catch (error) {
    opened.close();
    throw error;
  }
}

/** The options that say how a model answers. */
export interface AnswerFormatOptions extends Pick<ServedModelOptions, 'toolParser' | 'reasoningParser'> {
  /** A chat template in place of the file's. */
  readonly chatTemplate?: string | undefined;
  /** True if tools are described in a text to a template that knows of none. */
  readonly toolsFallback?: boolean | undefined;
}

/**
 * The model's format of reasoning and calls, and the reason if it is offered no tools. Empty for one without a template.
 *
 * @throws RocmForgeError `INVALID_OPTION` for formats that no text can have together
 */
export function answersOf(
  metadata: GgufMetadata,
  options: AnswerFormatOptions,
): Pick<LimitFacts, 'answerFormat' | 'toolTemplate' | 'toolsRefusal'> {
  const template = options.chatTemplate ?? metadata.string('tokenizer.chat_template');
  const toolTemplate = options.chatTemplate ?? metadata.string('tokenizer.chat_template.tool_use') ?? template;
  if (toolTemplate === undefined) return {};
  const { reasoningParser } = options;
  const isDescribed = options.toolsFallback === true && !mentionsTools(toolTemplate);
  const answerFormat: AnswerFormat = {
    tools: options.toolParser ?? (isDescribed ? 'hermes' : answerFormatOf(toolTemplate).tools),
    reasoning:
      reasoningParser === 'none' ? undefined : (reasoningParser ?? answerFormatOf(template ?? toolTemplate).reasoning),
  };
  const { tools, reasoning } = answerFormat;
  if (tools !== undefined && reasoning !== undefined && (tools === 'harmony') !== (reasoning === 'harmony')) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `calls as ${tools} and reasoning as ${reasoning} are in no text together; give --tool-parser and --reasoning-parser that are`,
    );
  }
  return {
    answerFormat,
    toolTemplate,
    toolsRefusal: isDescribed ? undefined : toolsRefusalOf(toolTemplate, answerFormat),
  };
}

function toolsRefusalOf(template: string, { tools }: AnswerFormat): string | undefined {
  if (!mentionsTools(template))
    return 'are not supported by the chat template; leave them out, or start the gateway with --tools-fallback';
  if (tools !== undefined) return undefined;
  return 'are not supported: the chat template does not show how the model writes calls; name the format with --tool-parser';
}

function openTemplate(metadata: GgufMetadata, tokenizer: Tokenizer, settings?: TemplateSettings): ChatTemplate {
  try {
    return new ChatTemplate(metadata, tokenizer, settings);
  } catch (error) {
    const message = (error as Error).message.replaceAll('chat.template_variables_json', '--chat-template-kwargs');
    throw new RocmForgeError('INVALID_OPTION', message, {}, { cause: error });
  }
}

function checkTemplate(template: ChatTemplate): void {
  try {
    template.check();
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `--chat-template cannot be read: ${(error as Error).message}`);
  }
}

/** Bytes of the longest token, which no text of one token exceeds; infinite where a token may stand for any text. */
function longestToken(tokenizer: Tokenizer): number {
  if (tokenizer.isLossy) return Number.POSITIVE_INFINITY;
  let longest = 1;
  for (let id = 0; id < tokenizer.vocabularySize; id++) longest = Math.max(longest, tokenizer.tokenBytes(id).length);
  return longest;
}
