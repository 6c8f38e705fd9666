import { afterEach, describe, expect, it } from 'vitest';
import {
  ChatInput,
  type DeepPartial,
  FinishReason,
  type GenerateChunk,
  GenerateRequest,
  type GenerateResponse,
  type GenerateStreamResponse,
  ToolChoiceMode,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { FakeExecutor } from '../doubles/fake-executor.js';
import { FAKE_VOCABULARY, type FakeGateway, spelled, startFakeGateway } from '../support/fake-gateway.js';
import { request } from '../support/gateway.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for m in messages %}{{ m.content }} {% endfor %}' +
  '{% if false %}<tool_call></think>{% endif %}';
const ANSWER =
  '<think>\nWhere? 東京.\n</think>\n\nI look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京 \\"x\\""}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>';
const WHOLE = {
  text: 'I look.',
  reasoning: 'Where? 東京.',
  toolCalls: [
    { name: 'weather', argumentsJson: '{"place": "東京 \\"x\\""}' },
    { name: 'clock', argumentsJson: '{}' },
  ],
};

let server: FakeGateway | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const start = (options: Parameters<typeof startFakeGateway>[0] = {}) =>
  startFakeGateway({ script: spelled(ANSWER), model: { chatTemplate: TEMPLATE }, ...options });

const chat = (parts: DeepPartial<ChatInput> = {}) => ({
  $case: 'chat' as const,
  value: ChatInput.fromPartial({
    messages: [{ role: 'user', content: 'the weather' }],
    tools: [{ name: 'weather' }, { name: 'clock' }],
    ...parts,
  }),
});

/** Content of a stream, without the ids of calls, which must be there once. */
function joined(chunks: readonly GenerateChunk[]) {
  const calls: { name: string; argumentsJson: string }[] = [];
  for (const { index, id, name, argumentsJson } of chunks.flatMap(({ toolCalls }) => toolCalls)) {
    expect(id !== '', 'the beginning of a call has an id, and nothing else has').toBe(index === calls.length);
    calls[index] = {
      name: (calls[index]?.name ?? '') + name,
      argumentsJson: (calls[index]?.argumentsJson ?? '') + argumentsJson,
    };
  }
  return {
    text: chunks.map(({ text }) => text).join(''),
    reasoning: chunks.map(({ reasoning }) => reasoning).join(''),
    toolCalls: calls,
  };
}

/** Streams a chat. @param onChunk told how many have come */
async function streamed(input: ReturnType<typeof chat>, onChunk: (count: number) => void = () => undefined) {
  const chunks: GenerateChunk[] = [];
  let reason: FinishReason | undefined;
  for await (const { event } of server!.client.generateStream(
    request({ input }),
  ) as AsyncIterable<GenerateStreamResponse>) {
    if (event?.$case === 'complete') reason = event.value.finishReason;
    if (event?.$case !== 'chunk') continue;
    chunks.push(event.value);
    onChunk(chunks.length);
  }
  return { chunks, ...joined(chunks), reason };
}

function whole(input: ReturnType<typeof chat>): Promise<GenerateResponse> {
  return new Promise((resolve, reject) => {
    const message = GenerateRequest.fromPartial({ input });
    server?.client.generate(message, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

describe('an answer that thinks, speaks and calls', () => {
  it('comes streamed, each thing in its field', async () => {
    server = await start();
    const { chunks, reason, ...turn } = await streamed(chat());
    expect(turn).toEqual(WHOLE);
    expect(reason).toBe(FinishReason.TOOL_CALLS);
    // Arguments come as they are written, not when they are whole; a busy loop joins some of it.
    const pieces = chunks.flatMap(({ toolCalls }) => toolCalls).filter(({ argumentsJson }) => argumentsJson !== '');
    expect(pieces.length).toBeGreaterThan(turn.toolCalls.length);
  });

  it('comes whole', async () => {
    server = await start();
    const { completions } = await whole(chat());
    expect(completions[0]).toMatchObject({ ...WHOLE, finishReason: FinishReason.TOOL_CALLS });
    expect(new Set(completions[0]?.toolCalls.map(({ id }) => id)).size).toBe(2);
  });

  it('comes joined where tokens are written together', async () => {
    server = await start({ streamInterval: 40 });
    const { chunks, reason, ...turn } = await streamed(chat());
    expect(turn).toEqual(WHOLE);
    expect(chunks.length).toBeLessThan(20);
  });

  it('is the same when its executor is lost in the middle of a call', async () => {
    server = await start({ stepMs: 4, prefixCache: false });
    const { gateway, executor } = server;
    let lost: Promise<void> | undefined;
    const next = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks: 1000, stepMs: 1, script: spelled(ANSWER) });
    const replace = async () => {
      await executor.stop();
      await next.listen(gateway.executorAddress() as string);
    };
    const middle = Buffer.from(ANSWER).indexOf('place');
    const turn = await streamed(chat(), (count) => {
      if (count === middle) lost = replace();
    });
    await lost;
    expect(gateway.executorEpoch()).toBe(2);
    expect(turn).toMatchObject({ ...WHOLE, reason: FinishReason.TOOL_CALLS });
    expect(next.failure).toBeUndefined();
    await server.stop();
    server = undefined;
    await next.stop();
  });

  it('ends with its first call where no more are wanted', async () => {
    server = await start();
    const { reason, toolCalls } = await streamed(chat({ parallelToolCalls: false }));
    expect(toolCalls).toEqual(WHOLE.toolCalls.slice(0, 1));
    expect(reason).toBe(FinishReason.TOOL_CALLS);
  });

  it('is text and reasoning where it may not call', async () => {
    server = await start();
    const { reason, toolCalls, text, reasoning } = await streamed(
      chat({ toolChoice: { choice: { $case: 'mode', value: 1 } } }),
    );
    expect({ toolCalls, reasoning, reason }).toEqual({
      toolCalls: [],
      reasoning: WHOLE.reasoning,
      reason: FinishReason.STOP,
    });
    expect(text).toContain('<tool_call>');
  });

  it('is text where no parser reads reasoning', async () => {
    server = await start({ reasoningParser: 'none' });
    const { reasoning, text, toolCalls } = await streamed(chat());
    expect(reasoning).toBe('');
    expect(text).toContain('<think>');
    expect(toolCalls).toEqual(WHOLE.toolCalls);
  });

  it('is all text where the prompt was no chat', async () => {
    server = await start();
    const chunks: GenerateChunk[] = [];
    const call = server.client.generateStream(request({ text: 'the weather', stop: { maxTokens: 400 } }));
    for await (const { event } of call as AsyncIterable<GenerateStreamResponse>) {
      if (event?.$case === 'chunk') chunks.push(event.value);
    }
    expect(joined(chunks)).toEqual({ text: ANSWER, reasoning: '', toolCalls: [] });
  });

  it('is the same for a request that is read in a thread', async () => {
    server = await start({ maxContext: 4096 });
    const tools = [{ name: 'weather', parametersJson: `{"description": "${'x'.repeat(40_000)}"}` }, { name: 'clock' }];
    expect(await streamed(chat({ tools }))).toMatchObject(WHOLE);
  });

  it('has begun to think where the template has begun it', async () => {
    const model = { chatTemplate: `${TEMPLATE}{% if add_generation_prompt %}<think>\n{% endif %}` };
    server = await start({ model, script: spelled('Hm.</think>Yes.') });
    expect(await streamed(chat())).toMatchObject({ text: 'Yes.', reasoning: 'Hm.', toolCalls: [] });
  });
});

describe('tools are refused by name', () => {
  const refusal = (input: ReturnType<typeof chat>) =>
    streamed(input).then(
      () => 'accepted',
      (error: Error) => error.message,
    );

  it('where the template does not know of any', async () => {
    server = await start({ model: { chatTemplate: '{{ messages[0].content }}<tool_call>' } });
    expect(await refusal(chat())).toMatch(/chat\.tools are not supported by the chat template/);
  });

  it('where calls could not be read, unless an option says how', async () => {
    const model = { chatTemplate: '{{ tools }}{{ messages[0].content }}' };
    server = await start({ model });
    expect(await refusal(chat())).toMatch(/chat\.tools .* name the format with --tool-parser/);
    await server.stop();
    server = await start({ model, toolParser: 'hermes', reasoningParser: 'think' });
    expect(await streamed(chat())).toMatchObject(WHOLE);
  });

  it.each([
    [
      { choice: { $case: 'function' as const, value: 'other' } },
      'requires a call of "other", which is not one of the tools',
    ],
    [{ choice: { $case: 'mode' as const, value: 9 } }, 'mode is 9; it must be a mode'],
    [{}, 'is empty'],
  ])('with a choice that is none: %j', async (toolChoice, words) => {
    server = await start();
    expect(await refusal(chat({ toolChoice }))).toContain(words);
  });

  it.each(['glm', 'qwen3-coder'] as const)(
    'where parameters say more than tags can be held to: %s',
    async (toolParser) => {
      server = await start({ toolParser });
      const toolChoice = { choice: { $case: 'mode' as const, value: ToolChoiceMode.REQUIRED } };
      const parametersJson = '{"properties": {"zone": {"type": "string", "minLength": 2}}}';
      expect(await refusal(chat({ tools: [{ name: 'clock', parametersJson }], toolChoice }))).toMatch(
        /chat\.tools\.parameters_json of "clock" at \/properties\/zone\/minLength: .*between tags/,
      );
    },
  );

  it('with functions beside a constraint whose names are no names in the markup of a call', async () => {
    server = await start();
    const input = chat({ tools: [{ name: 'clock"' }] });
    const call = server.client.generateStream(request({ input, constraint: { kind: { $case: 'regex', value: 'a' } } }));
    await expect(call.toArray()).rejects.toThrow(/chat\.tools\[0\]\.name is .*; with a constraint a name may contain/);
  });

  it('with a demand for a call and none to call', async () => {
    server = await start();
    expect(await refusal(chat({ tools: [], toolChoice: { choice: { $case: 'mode', value: 3 } } }))).toContain(
      'there are no tools',
    );
  });

  it('with formats that no text has together', async () => {
    await expect(start({ toolParser: 'harmony' })).rejects.toMatchObject({ reason: 'INVALID_OPTION' });
  });
});
