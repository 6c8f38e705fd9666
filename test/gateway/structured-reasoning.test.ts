import { afterEach, describe, expect, it } from 'vitest';
import {
  ChatInput,
  type Completion,
  type Constraint,
  GenerateRequest,
  type GenerateResponse,
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  StopConditions,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type FakeGateway, spelled, startFakeGateway } from '../support/fake-gateway.js';
import { request } from '../support/gateway.js';

const THINK =
  "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}" +
  '{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant><think>\n{% endif %}';
const OWN_THINK = `${THINK.split('{% if add_generation_prompt')[0]}<assistant>`;
const HARMONY =
  "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}" +
  '{% if add_generation_prompt %}<|start|>assistant{% endif %}';

type Kind = NonNullable<Constraint['kind']>;
const SCHEMA =
  '{"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"], "additionalProperties": false}';
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  [{ $case: 'jsonSchema', value: SCHEMA }, /^\{\s*"answer"\s*:\s*"(yes|no)"\s*\}$/],
  [{ $case: 'regex', value: 'a{3}' }, /^aaa$/],
  [{ $case: 'grammar', value: 'root ::= "(" ("a" | "b") ")"' }, /^\([ab]\)$/],
  [{ $case: 'choice', value: { options: ['yes', 'no'] } }, /^(yes|no)$/],
];

let server: FakeGateway | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const QUESTION = [{ role: 'user', content: 'q' }];
const ask = (kind: Kind, messages = QUESTION) => {
  const continueFinalMessage = messages.at(-1)!.role === 'assistant';
  const input = { $case: 'chat' as const, value: ChatInput.fromPartial({ messages, continueFinalMessage }) };
  return request({ input, stop: StopConditions.fromPartial({ maxTokens: 300 }), constraint: { kind } });
};

type Answer = Pick<Completion, 'text' | 'reasoning'>;

async function whole(message: GenerateStreamRequest): Promise<Answer> {
  const response = await new Promise<GenerateResponse>((resolve, reject) =>
    server!.client.generate(GenerateRequest.fromPartial(message), (error, answer) =>
      error ? reject(error) : resolve(answer),
    ),
  );
  const { text, reasoning } = response.completions[0]!;
  return { text, reasoning };
}

async function streamed(message: GenerateStreamRequest): Promise<Answer> {
  const answer = { text: '', reasoning: '' };
  const events = server!.client.generateStream(message) as AsyncIterable<GenerateStreamResponse>;
  for await (const { event } of events) {
    if (event?.$case !== 'chunk') continue;
    answer.text += event.value.text;
    answer.reasoning += event.value.reasoning;
  }
  return answer;
}

describe('a budget of reasoning tokens', () => {
  const within = (reasoningTokens: number | undefined, kind?: Kind) => {
    const input = { $case: 'chat' as const, value: ChatInput.fromPartial({ messages: QUESTION, reasoningTokens }) };
    const stop = StopConditions.fromPartial({ maxTokens: kind ? 300 : 60 });
    return request({ input, stop, ...(kind && { constraint: { kind } }), sampling: { seed: 5n } });
  };

  it('forces the end of the reasoning where it is spent, and nothing before or after', async () => {
    server = await startFakeGateway({ model: { chatTemplate: THINK } });
    const free = await whole(within(undefined));
    expect(free.text).toBe('');
    for (const read of [whole, streamed]) {
      const { text, reasoning } = await read(within(12));
      expect(reasoning).not.toBe('');
      expect(free.reasoning.startsWith(reasoning)).toBe(true);
      expect(text).not.toBe('');
    }
    expect((await whole(within(0))).reasoning).toBe('');
  });

  it('leaves alone what ends by itself', async () => {
    const script = spelled('Hm.\n</think>\n\nNo.');
    server = await startFakeGateway({ model: { chatTemplate: THINK }, script });
    expect(await whole(within(40))).toEqual({ text: 'No.', reasoning: 'Hm.' });
  });

  it('holds in front of a constraint, too', async () => {
    const [kind, pattern] = KINDS[0]!;
    server = await startFakeGateway({ model: { chatTemplate: THINK } });
    const { text, reasoning } = await whole(within(4, kind));
    expect(text).toMatch(pattern);
    expect(reasoning.length).toBeLessThan(60);
  });
});

describe('a constrained answer of a model that reasons', () => {
  it.each(KINDS)('is content behind reasoning that leaves it half of the tokens', async (kind, pattern) => {
    server = await startFakeGateway({ model: { chatTemplate: THINK } });
    for (const read of [whole, streamed]) {
      const { text, reasoning } = await read(ask(kind));
      expect(text).toMatch(pattern);
      expect(reasoning).not.toBe('');
      expect(reasoning).not.toContain('think>');
    }
  });

  it('comes behind as much reasoning as the model writes', async () => {
    const [kind, pattern] = KINDS[0]!;
    server = await startFakeGateway({
      model: { chatTemplate: THINK },
      script: spelled('Hm.\n</think>\n\n{"answer": "no"}'),
    });
    expect(await whole(ask(kind))).toEqual({ text: '{"answer": "no"}', reasoning: 'Hm.' });
    await server.stop();
    server = await startFakeGateway({
      model: { chatTemplate: OWN_THINK },
      script: spelled('<think>Hm.</think>{"answer": "no"}'),
    });
    expect(await whole(ask(kind))).toEqual({ text: '{"answer": "no"}', reasoning: 'Hm.' });
    expect((await streamed(ask(kind))).text).toMatch(pattern);
  });

  it('is in the final channel of harmony', async () => {
    const [kind] = KINDS[0]!;
    const channels =
      '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{"answer": "no"}';
    server = await startFakeGateway({ model: { chatTemplate: HARMONY }, script: spelled(channels) });
    for (const read of [whole, streamed]) {
      expect(await read(ask(kind))).toEqual({ text: '{"answer": "no"}', reasoning: 'Hm.' });
    }
  });

  it.each([THINK, HARMONY])('has no reasoning where it continues a final turn', async (chatTemplate) => {
    server = await startFakeGateway({ model: { chatTemplate } });
    const messages = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'It is' },
    ];
    for (const [kind, pattern] of KINDS) {
      const { text, reasoning } = await whole(ask(kind, messages));
      expect({ text, reasoning }).toEqual({ text: expect.stringMatching(pattern), reasoning: '' });
    }
  });
});
