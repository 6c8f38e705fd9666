import { describe, expect, it } from 'vitest';
import { REASONING_FORMATS } from '../../../src/gateway/chat/answer/answer-format.js';
import type { ResponseStart } from '../../../src/gateway/chat/answer/answer-parser.js';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { constraintOf } from '../../../src/gateway/request/required-tool-calls.js';
import type { GrammarRules } from '../../../src/lib/grammar/grammar.js';
import { type Constraint, GenerateStreamRequest } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { acceptedBy } from '../../support/byte-engine.js';

type Kind = NonNullable<Constraint['kind']>;

/** A constraint of each kind that takes the answer and no other. */
const KINDS: readonly (readonly [Kind, answer: string])[] = [
  [{ $case: 'jsonSchema', value: '{"const": {"root": 1}}' }, '{ "root": 1 }'],
  [{ $case: 'regex', value: 'ro{2}t' }, 'root'],
  [{ $case: 'grammar', value: 'root ::= "a" | "(" root ")"' }, '((a))'],
  [{ $case: 'choice', value: { options: ['yes'] } }, 'yes'],
];

function grammar(
  kind: Kind,
  reasoning: 'think' | 'mistral' | 'harmony' | undefined,
  start: ResponseStart,
): GrammarRules {
  const input = { $case: 'chat' as const, value: { messages: [{ role: 'user', content: 'q' }] } };
  const request = GenerateStreamRequest.fromPartial({ input, constraint: { kind } });
  const given = constraintOf(request, { answerFormat: { reasoning } }, { start });
  return grammarOf(given!);
}

async function expectTexts(made: GrammarRules, taken: readonly string[], others: readonly string[]): Promise<void> {
  expect(await acceptedBy(made, [...taken, ...others])).toEqual(taken);
}

describe.each(KINDS)('a constraint $case', (kind, answer) => {
  it.each(['think', 'mistral'] as const)('starts behind reasoning of %s that the prompt has begun', async (format) => {
    const { begin, end } = REASONING_FORMATS[format];
    const wrong = `${answer}!`;
    await expectTexts(
      grammar(kind, format, 'reasoning'),
      [`Hm.${end}\n\n${answer}`, `${answer}${end}${answer}`, `${begin}Hm.\n${end}${answer}`, `${end}${answer}`],
      [answer, `Hm.${end}${wrong}`, `Hm.${end}\n\n\n${answer}`, `Hm.${end}`, `Hm.${end}${answer}${end}${answer}`],
    );
  });

  it('holds from the start of the turn, or behind reasoning that the model begins', async () => {
    await expectTexts(
      grammar(kind, 'think', 'turn'),
      [answer, `<think>Hm.</think>\n${answer}`],
      [`Hm.</think>${answer}`, `${answer}!`, `<think>${answer}`],
    );
  });

  it.each(['content', 'continuation'] as const)(
    'leaves no room for reasoning where the answer starts as %s',
    async (start) => {
      await expectTexts(grammar(kind, 'think', start), [answer], [`<think></think>${answer}`, `Hm.</think>${answer}`]);
    },
  );

  it('holds in the final channel of harmony', async () => {
    const final = `<|channel|>final<|message|>${answer}`;
    const analysis = '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant';
    await expectTexts(
      grammar(kind, 'harmony', 'turn'),
      [final, analysis + final],
      [answer, analysis + answer, `${final}!`],
    );
  });
});

it('is held to as it is where the model does not reason', async () => {
  for (const [kind, answer] of KINDS)
    await expectTexts(grammar(kind, undefined, 'turn'), [answer], [`<think></think>${answer}`]);
});
