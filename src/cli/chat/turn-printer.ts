import type { GenerateChunk } from '../../shared/generated/rocmforge/v1/inference.js';

const DIM = '\x1b[2m';
const NOT_DIM = '\x1b[22m';

/** A turn as text for a terminal: reasoning dimmed, calls as `name(arguments)`. */
export class TurnPrinter {
  private state: 'reasoning' | 'content' | 'call' | undefined;

  /** @param hasStyles whether the terminal knows of dimmed text */
  constructor(private readonly hasStyles: boolean) {}

  /** What a chunk adds. */
  chunk({ reasoning, text, toolCalls }: Pick<GenerateChunk, 'reasoning' | 'text' | 'toolCalls'>): string {
    let shown = reasoning === '' ? '' : this.enter('reasoning') + reasoning;
    if (text !== '') shown += this.enter('content') + text;
    for (const { id, name, argumentsJson } of toolCalls) {
      if (id !== '') shown += `${this.enter('call', true)}→ ${name}(`;
      shown += argumentsJson;
    }
    return shown;
  }

  /** What the end of the turn adds. */
  end(): string {
    return this.leave();
  }

  private enter(state: NonNullable<TurnPrinter['state']>, isNew = false): string {
    if (this.state === state && !isNew) return '';
    const before = this.leave();
    const isFirst = this.state === undefined;
    this.state = state;
    return `${before}${isFirst ? '' : '\n'}${state === 'reasoning' && this.hasStyles ? DIM : ''}`;
  }

  private leave(): string {
    if (this.state === 'reasoning' && this.hasStyles) return NOT_DIM;
    return this.state === 'call' ? ')' : '';
  }
}
