import type { GenerateChunk } from '../../shared/generated/rocmforge/v1/inference.js';
import { printable } from '../../shared/printable.js';

const DIM = '\x1b[2m';
const NOT_DIM = '\x1b[22m';

/** A turn as text for a terminal: reasoning dimmed, calls as `name(arguments)`. */
export class TurnPrinter {
  private state: 'reasoning' | 'content' | 'call' | undefined;

  /** @param isTerminal whether text may be dimmed, and nothing that the model writes may steer what shows it */
  constructor(private readonly isTerminal: boolean) {}

  /** Text that a chunk adds. */
  chunk({ reasoning, text, toolCalls }: Pick<GenerateChunk, 'reasoning' | 'text' | 'toolCalls'>): string {
    let shown = reasoning === '' ? '' : this.enter('reasoning') + this.written(reasoning);
    if (text !== '') shown += this.enter('content') + this.written(text);
    for (const { id, name, argumentsJson } of toolCalls) {
      if (id !== '') shown += `${this.enter('call', true)}→ ${this.written(name)}(`;
      shown += this.written(argumentsJson);
    }
    return shown;
  }

  /** Text at the end of the turn. */
  end(): string {
    return this.leave();
  }

  private written(text: string): string {
    return this.isTerminal ? printable(text) : text;
  }

  private enter(state: NonNullable<TurnPrinter['state']>, isNew = false): string {
    if (this.state === state && !isNew) return '';
    const before = this.leave();
    const isFirst = this.state === undefined;
    this.state = state;
    return `${before}${isFirst ? '' : '\n'}${state === 'reasoning' && this.isTerminal ? DIM : ''}`;
  }

  private leave(): string {
    if (this.state === 'reasoning' && this.isTerminal) return NOT_DIM;
    return this.state === 'call' ? ')' : '';
  }
}
