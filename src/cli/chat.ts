import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Fields } from '../gateway/doors/http/fields.js';
import { toolsOf } from '../gateway/doors/http/openai/tool-fields.js';
import { asRocmForgeError, RocmForgeError } from '../shared/errors.js';
import {
  ChatInput,
  ChatMessage,
  FinishReason,
  type GenerateChunk,
  GenerateStreamRequest,
  SamplingParameters,
  StopConditions,
  type Tool,
  type ToolCall,
} from '../shared/generated/rocmforge/v1/inference.js';
import { connect, stream } from './client.js';
import type { ModelOptionValues } from './options.js';
import { TurnPrinter } from './turn-printer.js';

export interface ChatOptions extends ModelOptionValues {
  readonly model?: string;
  readonly address?: string;
  readonly system?: string;
  /** A file with a JSON list of functions, as OpenAI writes them. */
  readonly tools?: string;
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly seed?: bigint;
}

/**
 * `rocmforge chat`: a conversation in the terminal. `/reset` forgets it, `/exit` or end of input ends it. What the model calls
 * is shown, and the next lines are what its calls gave.
 *
 * @throws RocmForgeError `INVALID_OPTION` for tools that cannot be read
 */
export async function chat(options: ChatOptions): Promise<void> {
  const tools = options.tools === undefined ? [] : readTools(options.tools);
  const connection = await connect(options);
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' });
  const opening =
    options.system === undefined ? [] : [ChatMessage.fromPartial({ role: 'system', content: options.system })];
  let messages = [...opening];
  /** Calls of the last turn that nobody has answered. */
  let open: ToolCall[] = [];
  const ask = (): void => {
    lines.setPrompt(open[0] === undefined ? '> ' : `${open[0].name}> `);
    lines.prompt();
  };
  try {
    ask();
    for await (const line of lines) {
      const content = line.trim();
      if (content === '/exit') break;
      if (content === '/reset') {
        messages = [...opening];
        open = [];
        process.stdout.write('(forgotten)\n');
      } else if (content !== '') {
        const call = open.shift();
        const turn = call === undefined ? { role: 'user' } : { role: 'tool', name: call.name, toolCallId: call.id };
        messages.push(ChatMessage.fromPartial({ ...turn, content }));
        if (open.length === 0) open = await answer();
      }
      ask();
    }
  } finally {
    lines.close();
    await connection.close();
  }

  /** Has the model answer. @returns what it calls */
  async function answer(): Promise<ToolCall[]> {
    const request: GenerateStreamRequest = {
      ...GenerateStreamRequest.create(),
      input: { $case: 'chat', value: ChatInput.fromPartial({ messages, tools }) },
      sampling: { ...SamplingParameters.create(), temperature: options.temperature, seed: options.seed },
      stop: { ...StopConditions.create(), maxTokens: options.maxTokens },
    };
    const turn = ChatMessage.fromPartial({ role: 'assistant' });
    const show = new TurnPrinter(process.stdout.isTTY);
    try {
      const [complete] = await stream(connection.client, request, (chunk) => {
        addTo(turn, chunk);
        process.stdout.write(show.chunk(chunk));
      });
      // Calls that were cut are nobody's to answer.
      if (complete?.finishReason !== FinishReason.TOOL_CALLS) turn.toolCalls = [];
      messages.push(turn);
    } catch (error) {
      // The turn failed, the conversation goes on: what was asked is taken back, and what came since.
      messages = messages.slice(
        0,
        messages.findLastIndex(({ role }) => role === 'user'),
      );
      const told = asRocmForgeError(error);
      process.stdout.write(`\n(${told.reason}: ${told.message})`);
      turn.toolCalls = [];
    }
    process.stdout.write(`${show.end()}\n`);
    return turn.toolCalls;
  }
}

function addTo(turn: ChatMessage, { text, reasoning, toolCalls }: GenerateChunk): void {
  turn.content += text;
  turn.reasoning += reasoning;
  for (const { index, id, name, argumentsJson } of toolCalls) {
    const call = turn.toolCalls[index];
    if (call === undefined) turn.toolCalls[index] = { id, name, argumentsJson };
    else call.argumentsJson += argumentsJson;
  }
}

function readTools(file: string): Tool[] {
  try {
    return toolsOf(new Fields({ tools: JSON.parse(readFileSync(file, 'utf8')) }));
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `--tools ${file} cannot be read: ${(error as Error).message}`);
  }
}
