import type { Expression } from '../../src/lib/grammar/grammar.js';
import type { Random } from './random.js';

type Rules = ReadonlyMap<string, Expression>;

/** True if rules produce a text from `root`: every end that a rule may have from every place, until no more are found. */
export function produces(rules: Rules, text: string): boolean {
  const input = [...text].map((character) => character.codePointAt(0)!);
  const ends = new Map<string, Set<number>>();
  let isNew = true;
  const endsOf = (expression: Expression, from: number): Set<number> => {
    switch (expression.kind) {
      case 'text': {
        const wanted = [...expression.text].map((character) => character.codePointAt(0)!);
        return new Set(wanted.every((one, index) => input[from + index] === one) ? [from + wanted.length] : []);
      }
      case 'characters': {
        const { set } = expression;
        const isIn = set.some(
          (first, index) => index % 2 === 0 && first <= input[from]! && input[from]! <= set[index + 1]!,
        );
        return new Set(isIn ? [from + 1] : []);
      }
      case 'special':
        // No text is one.
        return new Set();
      case 'rule': {
        const key = `${expression.name} ${from}`;
        if (!ends.has(key)) {
          ends.set(key, new Set());
          isNew = true;
        }
        return ends.get(key)!;
      }
      case 'sequence': {
        let at = new Set([from]);
        for (const part of expression.parts) at = new Set([...at].flatMap((place) => [...endsOf(part, place)]));
        return at;
      }
      case 'choice':
        return new Set(expression.options.flatMap((option) => [...endsOf(option, from)]));
      case 'repeat': {
        const { what, min, max } = expression;
        const found = new Set(min === 0 ? [from] : []);
        let at = new Set([from]);
        for (let count = 1; count <= Math.min(max, min + input.length + 1) && at.size > 0; count++) {
          at = new Set([...at].flatMap((place) => [...endsOf(what, place)]));
          if (count >= min) for (const place of at) found.add(place);
        }
        return found;
      }
    }
  };
  endsOf({ kind: 'rule', name: 'root' }, 0);
  while (isNew) {
    isNew = false;
    for (const [key, known] of [...ends]) {
      const [name, from] = key.split(' ') as [string, string];
      for (const end of endsOf(rules.get(name)!, Number(from))) {
        if (!known.has(end)) isNew = true;
        known.add(end);
      }
    }
  }
  return ends.get('root 0')!.has(input.length);
}

/** A text that the rules produce, or one that got too deep and was cut short. */
export function derived(rules: Rules, random: Random): string {
  let budget = 60;
  const write = (expression: Expression): string => {
    if (budget-- <= 0) return '';
    switch (expression.kind) {
      case 'text':
        return expression.text;
      case 'special':
        throw new Error(`no text is the token ${expression.name}`);
      case 'characters': {
        const pair = 2 * random.below(expression.set.length / 2);
        const [first, last] = [expression.set[pair]!, Math.min(expression.set[pair + 1]!, expression.set[pair]! + 200)];
        return String.fromCodePoint(first + random.below(last - first + 1));
      }
      case 'rule':
        return write(rules.get(expression.name)!);
      case 'sequence':
        return expression.parts.map(write).join('');
      case 'choice':
        return expression.options.length === 0
          ? ''
          : write(expression.options[random.below(expression.options.length)]!);
      case 'repeat': {
        const most = Math.min(expression.max, expression.min + 3);
        const count = expression.min + random.below(most - expression.min + 1);
        return Array.from({ length: count }, () => write(expression.what)).join('');
      }
    }
  };
  return write({ kind: 'rule', name: 'root' });
}
