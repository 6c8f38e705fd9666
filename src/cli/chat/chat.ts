import { createInterface } from 'node:readline/promises';
import { Fields } from '../../gateway/api/http/fields.js';
import { toolsOf } from '../../gateway/api/http/openai/tool-fields.js';
import { parseJson } from '../../lib/json/exact-json.js';
import { asRocmForgeError, ERRORS, type ErrorReason, RocmForgeError } from '../../shared/errors.js';
import {
  ChatInput,
  ChatMessage,
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  GenerateStreamRequest,
  SamplingParameters,
  StopConditions,
  type Tool,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { readOptionFile } from '../../shared/option-file.js';
import type { OptionValues } from '../../shared/option-table.js';
import { printableLine } from '../../shared/printable.js';
import { type Connection, connect, servedModel, stream } from '../common/client.js';
import { outputClosed } from '../common/closed-output.js';
import { writeText } from '../common/output.js';
import { whyUnreachable } from '../common/unreachable.js';
import type { CHAT_OPTIONS } from '../generate/text-commands.js';
import { Conversation } from './conversation.js';
import { History } from './history.js';
import { Keys, messageOf, PASTE_OFF, PASTE_ON } from './keys.js';
import { TurnPrinter } from './turn-printer.js';

export type ChatOptions = OptionValues<typeof CHAT_OPTIONS>;

const HELP = `/regenerate     generate another answer to the last message
/system [TEXT]  set the system message; without a text, remove it
/save FILE      save the conversation
/load FILE      continue a saved conversation
/reset          start a new conversation
/exit           leave (also /quit, /bye or Ctrl-D)
Alt-Enter or Ctrl-J begins another line, Ctrl-C stops an answer, twice leaves. //TEXT sends /TEXT.
`;
/** Time that the gateway at an address may take to list its models. */
const GREETING_MS = 2000;

/**
 * `rocmforge chat`: a conversation in the terminal. What the model calls is shown, and the next lines are what its calls gave.
 *
 * @throws RocmForgeError `INVALID_OPTION` for tools that cannot be read, `GATEWAY_UNAVAILABLE` when no gateway answers at the
 *   address, or the gateway's reason for rejecting the caller
 */
export async function chat(options: ChatOptions): Promise<void> {
  const tools = options.tools === undefined ? [] : readTools(options.tools);
  const connection = await connect(options);
  try {
    if (options.address !== undefined) await greet(connection, options.address, servedModel(options));
    await new Chat(options, tools, connection).run();
  } finally {
    await connection.close();
  }
}

/** A wrong address is told before anything is typed. */
async function greet({ client }: Connection, address: string, model: string): Promise<void> {
  try {
    await client.getModel({ model }, { deadlineMs: GREETING_MS });
  } catch (error) {
    const { reason, message } = error as { readonly reason?: string; readonly message: string };
    // The gateway itself reports a rejected caller, in its words.
    if (reason !== undefined) {
      const known = Object.hasOwn(ERRORS, reason) ? (reason as ErrorReason) : 'INVALID_OPTION';
      throw new RocmForgeError(known, `${address}: ${message}`);
    }
    throw new RocmForgeError('GATEWAY_UNAVAILABLE', whyUnreachable(message, address));
  }
}

/** One conversation and the terminal or the pipe that it is held at. */
class Chat {
  private readonly conversation: Conversation;
  private readonly isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  private readonly history = new History();
  private readonly lines = createInterface({
    input: this.isTerminal ? new Keys(process.stdin) : process.stdin,
    output: process.stdout,
    prompt: '> ',
    ...(this.isTerminal && { terminal: true, history: this.history.read(), historySize: 1000 }),
  });
  /** Stops the answer under way. */
  private stopping: AbortController | undefined;
  private interrupts = 0;
  /** The last answer ended where the context did. */
  private isFull = false;

  constructor(
    private readonly options: ChatOptions,
    private readonly tools: readonly Tool[],
    private readonly connection: Connection,
  ) {
    this.conversation = new Conversation(options.system);
  }

  /** Until somebody leaves. */
  async run(): Promise<void> {
    const leave = (): void => this.lines.close();
    outputClosed.addEventListener('abort', leave);
    this.lines.on('SIGINT', () => this.interrupted());
    if (this.isTerminal) process.stdout.write(`${PASTE_ON}(/help lists what else can be typed)\n`);
    try {
      this.ask();
      for await (const line of this.lines) {
        this.interrupts = 0;
        if (!(await this.entered(line))) break;
        this.ask();
      }
    } finally {
      this.stopping?.abort();
      this.lines.close();
      process.stdin.unref?.();
      if (this.isTerminal) process.stdout.write(PASTE_OFF);
      outputClosed.removeEventListener('abort', leave);
    }
  }

  private ask(): void {
    const call = this.conversation.openCall;
    this.lines.setPrompt(call === undefined ? '> ' : `${printableLine(call.name)}> `);
    this.lines.prompt();
  }

  /** Ctrl-C: stops the answer; the second in a row leaves. */
  private interrupted(): void {
    this.interrupts += 1;
    if (this.interrupts > 1) {
      this.stopping?.abort();
      this.lines.close();
    } else if (this.stopping !== undefined) {
      this.stopping.abort();
    } else {
      process.stdout.write('\n(Ctrl-C again leaves)\n');
      this.ask();
    }
  }

  /** @returns whether the conversation goes on */
  private async entered(line: string): Promise<boolean> {
    const content = messageOf(line).trim();
    if (content === '') return true;
    if (this.isTerminal) this.history.add(line.trim());
    const command = /^\/(\w+)(?:\s+([\s\S]*))?$/.exec(content);
    if (command !== null) return await this.commanded(command[1] as string, command[2]?.trim() ?? '');
    if (this.conversation.typed(content.replace(/^\/\//, '/'))) await this.answer();
    return true;
  }

  private async commanded(name: string, argument: string): Promise<boolean> {
    const { conversation } = this;
    const say = (text: string): void => writeText(`(${text})\n`);
    switch (name) {
      case 'exit':
      case 'quit':
      case 'bye':
        return false;
      case 'help':
        process.stdout.write(HELP);
        break;
      case 'reset':
        conversation.reset();
        this.isFull = false;
        say('forgotten');
        break;
      case 'system':
        conversation.setSystem(argument === '' ? undefined : argument);
        say(argument === '' ? 'no system message' : 'the system message is set');
        break;
      case 'regenerate':
        if (conversation.takeBackAnswer()) await this.answer();
        else say('no message was given');
        break;
      case 'save':
      case 'load':
        if (argument === '') say(`/${name} takes a file`);
        else this.kept(name, argument, say);
        break;
      default:
        say(`there is no /${name}; /help lists what there is, //${name} sends it`);
    }
    return true;
  }

  private kept(name: 'save' | 'load', file: string, say: (text: string) => void): void {
    try {
      if (name === 'save') {
        this.conversation.save(file);
        say(`kept in ${file}`);
      } else {
        say(`${this.conversation.load(file)} turns of ${file}`);
        this.isFull = false;
      }
    } catch (error) {
      say(`${file}: ${(error as Error).message}`);
    }
  }

  /** Has the model answer; where the context is full, without the oldest turns. */
  private async answer(): Promise<void> {
    let dropped = 0;
    if (this.isFull && this.conversation.dropOldest()) dropped += 1;
    this.isFull = false;
    for (;;) {
      const refused = await this.tried(dropped);
      if (refused === undefined) return;
      if (refused.reason !== 'PROMPT_TOO_LONG' || !this.conversation.dropOldest()) {
        // The turn failed, the conversation goes on: what was asked is taken back, and what came since.
        this.conversation.takeBack();
        writeText(`\n(${refused.reason}: ${refused.message})\n`);
        return;
      }
      dropped += 1;
    }
  }

  /** @returns why there was no answer */
  private async tried(dropped: number): Promise<RocmForgeError | undefined> {
    const { options, conversation } = this;
    const request: GenerateStreamRequest = {
      ...GenerateStreamRequest.create(),
      model: servedModel(options),
      input: {
        $case: 'chat',
        value: ChatInput.fromPartial({ messages: conversation.messages, tools: [...this.tools] }),
      },
      sampling: { ...SamplingParameters.create(), temperature: options.temperature, seed: options.seed },
      stop: { ...StopConditions.create(), maxTokens: options.maxTokens },
    };
    const turn = ChatMessage.fromPartial({ role: 'assistant' });
    const show = new TurnPrinter(process.stdout.isTTY);
    const stopping = new AbortController();
    this.stopping = stopping;
    let firstAt = 0;
    let tokens = 0;
    try {
      const [complete] = await stream(
        this.connection.client,
        request,
        (chunk) => {
          if (firstAt === 0) {
            firstAt = performance.now();
            if (dropped > 0) process.stdout.write(`(the context is full: the oldest ${turns(dropped)} dropped)\n`);
          }
          tokens += chunk.tokenIds.length;
          addTo(turn, chunk);
          process.stdout.write(show.chunk(chunk));
        },
        stopping.signal,
      );
      this.ended(complete as GenerateComplete, turn, show, firstAt);
      return undefined;
    } catch (error) {
      // Calls that were cut are nobody's to answer.
      turn.toolCalls = [];
      if (stopping.signal.aborted) {
        conversation.answered(turn);
        process.stdout.write(`${show.end()}\n(stopped after ${tokens} tokens)\n`);
        return undefined;
      }
      if (tokens > 0) process.stdout.write(show.end());
      return asRocmForgeError(error);
    } finally {
      this.stopping = undefined;
    }
  }

  private ended(
    { finishReason, usage }: GenerateComplete,
    turn: ChatMessage,
    show: TurnPrinter,
    firstAt: number,
  ): void {
    if (finishReason !== FinishReason.TOOL_CALLS) turn.toolCalls = [];
    this.conversation.answered(turn);
    process.stdout.write(`${show.end()}\n`);
    const tokens = usage?.completionTokens ?? 0;
    // Cut by the context, not by what was asked for.
    this.isFull = finishReason === FinishReason.LENGTH && tokens < (this.options.maxTokens ?? Number.POSITIVE_INFINITY);
    if (this.isFull) process.stdout.write('(the context is full: the oldest turn goes before the next answer)\n');
    if (!this.isTerminal) return;
    const rate = tokens > 1 ? `, ${((1000 * (tokens - 1)) / (performance.now() - firstAt)).toFixed(1)} tokens/s` : '';
    process.stdout.write(`\x1b[2m(${tokens} tokens${rate})\x1b[22m\n`);
  }
}

const turns = (count: number): string => (count === 1 ? 'turn is' : `${count} turns are`);

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
  const text = readOptionFile({ option: 'tools', path: file }).toString('utf8');
  try {
    return toolsOf(new Fields({ tools: parseJson(text) }));
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `--tools ${file} cannot be read: ${(error as Error).message}`);
  }
}
