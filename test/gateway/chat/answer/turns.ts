import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AnswerFormat } from '../../../../src/gateway/chat/answer/answer-format.js';
import { AnswerParser, type AnswerParserOptions } from '../../../../src/gateway/chat/answer/answer-parser.js';
import type { OfferedTool } from '../../../../src/gateway/chat/answer/events.js';
import { runs } from '../../../support/run-size.js';

/** Functions that tests offer. */
export const TOOLS: readonly OfferedTool[] = [
  {
    name: 'weather',
    parametersJson: JSON.stringify({
      type: 'object',
      properties: {
        place: { type: 'string' },
        days: { type: 'integer' },
        factor: { type: 'number' },
        exact: { type: 'boolean' },
        at: { type: ['string', 'null'] },
        units: { enum: ['C', 'F'] },
        tags: { type: 'array' },
        options: { type: 'object' },
        either: { anyOf: [{ type: 'integer' }, { type: 'boolean' }] },
        any: {},
      },
    }),
  },
  { name: 'clock', parametersJson: '' },
];

/** A call as all of its events together say. */
export interface WholeCall {
  readonly name: string;
  readonly args: string;
  /** Only where the model gave one. */
  readonly id?: string;
  /** True if the end of the text cut it. */
  readonly isCut?: true;
}

/** A turn as all of its events together say. */
export interface WholeTurn {
  readonly content?: string;
  readonly reasoning?: string;
  readonly calls?: readonly WholeCall[];
}

/** A text and what it says. */
export interface Shape extends WholeTurn {
  readonly text: string;
  readonly options?: Partial<AnswerParserOptions> & {
    /** True if the model would have gone on. */
    readonly isCut?: boolean;
  };
}

/** Reads a text that comes in pieces. Fails where the events are in no order that a client could follow. */
export function readTurn(
  format: AnswerFormat,
  pieces: readonly string[],
  { isCut = false, ...options }: Shape['options'] = {},
): WholeTurn {
  const parser = new AnswerParser({ format, tools: TOOLS, start: 'turn', newId: () => 'made-up', ...options });
  let content = '';
  let reasoning = '';
  const calls: { name: string; args: string; id: string; isCut: boolean }[] = [];
  for (const event of [...pieces.flatMap((piece) => parser.push(piece)), ...parser.finish(isCut)]) {
    if (event.kind === 'content') content += event.text;
    else if (event.kind === 'reasoning') reasoning += event.text;
    else if (event.kind === 'call') {
      expect(event.index).toBe(calls.length);
      calls.push({ name: event.name, args: '', id: event.id, isCut: true });
    } else {
      const call = calls[event.index];
      if (call === undefined) throw new Error(`call ${event.index} has not begun`);
      expect(call.isCut, 'nothing comes for a call that has ended').toBe(true);
      if (event.kind === 'call_end') call.isCut = false;
      else call.args += event.text;
    }
  }
  expect(parser.hasWholeCalls).toBe(calls.length > 0 && calls.every(({ isCut }) => !isCut));
  return {
    ...(content !== '' && { content }),
    ...(reasoning !== '' && { reasoning }),
    ...(calls.length > 0 && {
      calls: calls.map(({ name, args, id, isCut }) => ({
        name,
        args,
        ...(id !== 'made-up' && { id }),
        ...(isCut && { isCut: true as const }),
      })),
    }),
  };
}

/** The pieces of a text that is cut at some places. */
export function cut(text: string, at: readonly number[]): string[] {
  const places = [...new Set(at)].sort((a, b) => a - b);
  return [...places, text.length].map((end, i) => text.slice(places[i - 1] ?? 0, end));
}

/** Length up to which all splits of a text are tried. */
const SHORT = 11;

/** All sets of some of the numbers 0 .. count - 1. */
function* subsets(count: number): Generator<number[]> {
  const all = Array.from({ length: Math.max(0, count) }, (_, i) => i);
  for (let set = 0; set < 2 ** all.length; set++) yield all.filter((i) => (set >> i) & 1);
}

/**
 * A test for each shape: what it says, and that it says so however it is cut: at each place, at all of them, and at 200 random
 * sets of places; short ones at all sets of places.
 */
export function describeShapes(name: string, format: AnswerFormat, shapes: Readonly<Record<string, Shape>>): void {
  describe(name, () => {
    it.each(Object.entries(shapes))('reads %s', (_, { text, options, ...turn }) => {
      expect(readTurn(format, [text], options)).toEqual(turn);
    });

    it.each(Object.entries(shapes))('reads %s in any pieces', (_, { text, options, ...turn }) => {
      const inPieces = (at: readonly number[]) => readTurn(format, cut(text, at), options);
      for (let at = 1; at < text.length; at++) expect(inPieces([at])).toEqual(turn);
      expect(inPieces(Array.from(text, (_character, i) => i))).toEqual(turn);
      if (text.length <= SHORT) {
        for (const at of subsets(text.length - 1)) expect(inPieces(at.map((place) => place + 1))).toEqual(turn);
        return;
      }
      fc.assert(
        fc.property(fc.array(fc.nat(text.length), { maxLength: 12 }), (at) => {
          expect(inPieces(at)).toEqual(turn);
        }),
        { numRuns: runs(200) },
      );
    });
  });
}
