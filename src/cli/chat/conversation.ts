import { readFileSync } from 'node:fs';
import { writeOutputFile } from '../../lib/support/output-file.js';
import { RocmForgeError } from '../../shared/errors.js';
import { ChatMessage, type ToolCall } from '../../shared/generated/rocmforge/v1/inference.js';

const ROLES = ['system', 'user', 'assistant', 'tool'];

/** Turns so far, and calls without a result. */
export class Conversation {
  private turns: ChatMessage[] = [];
  /** Calls of the last turn that nobody has answered. */
  private calls: ToolCall[] = [];

  /** @param system the system message; absent: none */
  constructor(private system?: string) {}

  /** The call whose answer comes next. */
  get openCall(): ToolCall | undefined {
    return this.calls[0];
  }

  get messages(): ChatMessage[] {
    const opening =
      this.system === undefined ? [] : [ChatMessage.fromPartial({ role: 'system', content: this.system })];
    return [...opening, ...this.turns];
  }

  /** Adds a user's input: a turn, or the result of a call. @returns true if it is the model's turn now */
  typed(content: string): boolean {
    const call = this.calls.shift();
    const turn = call === undefined ? { role: 'user' } : { role: 'tool', name: call.name, toolCallId: call.id };
    this.turns.push(ChatMessage.fromPartial({ ...turn, content }));
    return this.calls.length === 0;
  }

  /** Adds the model's turn. */
  answered(turn: ChatMessage): void {
    this.turns.push(turn);
    this.calls = [...turn.toolCalls];
  }

  reset(): void {
    this.turns = [];
    this.calls = [];
  }

  /** @param text undefined: no system message any more */
  setSystem(text: string | undefined): void {
    this.system = text;
  }

  /** Takes back the last user's turn and what came since. */
  takeBack(): void {
    this.cut(this.lastOfUser());
  }

  /** Takes back what the model has said since the last user's turn. @returns whether there is such a turn */
  takeBackAnswer(): boolean {
    const last = this.lastOfUser();
    if (last >= 0) this.cut(last + 1);
    return last >= 0;
  }

  /** Forgets the oldest user's turn and what was said to it. @returns whether another is left to answer */
  dropOldest(): boolean {
    const next = this.turns.findIndex(({ role }, i) => i > 0 && role === 'user');
    if (next === -1) return false;
    this.turns = this.turns.slice(next);
    return true;
  }

  /** @throws the file system's error */
  save(file: string): void {
    const messages = this.messages.map((message) => ChatMessage.toJSON(message));
    writeOutputFile(file, `${JSON.stringify({ messages }, null, 2)}\n`, { mode: 0o600 });
  }

  /**
   * Goes on with a conversation that was saved.
   *
   * @returns its turns
   * @throws RocmForgeError `INVALID_OPTION` for a file that holds none
   */
  load(file: string): number {
    const saved = JSON.parse(readFileSync(file, 'utf8')) as { readonly messages?: unknown } | null;
    const isTurn = (turn: unknown): boolean =>
      typeof turn === 'object' && turn !== null && 'role' in turn && ROLES.includes(String(turn.role));
    if (!Array.isArray(saved?.messages) || !saved.messages.every(isTurn)) {
      throw new RocmForgeError('INVALID_OPTION', 'it holds no list of messages with roles');
    }
    const messages = saved.messages.map((turn) => ChatMessage.fromJSON(turn));
    this.system = messages[0]?.role === 'system' ? messages[0].content : undefined;
    this.turns = this.system === undefined ? messages : messages.slice(1);
    this.calls = [];
    return this.turns.length;
  }

  private lastOfUser(): number {
    return this.turns.findLastIndex(({ role }) => role === 'user');
  }

  private cut(length: number): void {
    this.turns = this.turns.slice(0, Math.max(0, length));
    this.calls = [];
  }
}
