import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FinishReason, type GenerateStreamEvent, RocmForgeClient } from '../../src/client/index.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';

const input = { $case: 'text', value: { text: 'the fox' } } as const;

describe('a client', () => {
  let server: FakeGateway;
  let client: RocmForgeClient;
  beforeAll(async () => {
    server = await startFakeGateway();
    client = new RocmForgeClient(server.address);
  });
  afterAll(async () => {
    client?.close();
    await server?.stop();
  });

  it('yields chunks as they come, and then the end of each completion', async () => {
    const events: GenerateStreamEvent[] = [];
    const request = { input, n: 2, requestId: 'mine', stop: { maxTokens: 5, ignoreEos: true } };
    for await (const event of client.generateStream(request)) events.push(event);
    expect(events.every(({ requestId }) => requestId === 'mine')).toBe(true);
    const ids = [0, 1].map((index) =>
      events.flatMap(({ $case, value }) => ($case === 'chunk' && value.index === index ? value.tokenIds : [])),
    );
    expect(ids.map(({ length }) => length)).toEqual([5, 5]);
    const ends = events.flatMap(({ $case, value }) => ($case === 'complete' ? [value] : []));
    expect(ends.map(({ index, finishReason }) => [index, finishReason])).toEqual([
      [0, FinishReason.LENGTH],
      [1, FinishReason.LENGTH],
    ]);
  });

  it('generates at once what it streams', async () => {
    const request = { input, sampling: { seed: 7n }, stop: { maxTokens: 5, ignoreEos: true } };
    let streamed = '';
    for await (const event of client.generateStream(request)) if (event.$case === 'chunk') streamed += event.value.text;
    const { completions } = await client.generate(request);
    expect(completions.map(({ text }) => text)).toEqual([streamed]);
    expect(streamed).not.toBe('');
  });

  it('turns text into ids and back', async () => {
    const { tokenIds } = await client.tokenize({ input });
    expect(tokenIds.length).toBeGreaterThan(0);
    expect(await client.detokenize({ tokenIds })).toEqual({ text: 'the fox' });
  });

  it('tells of the models', async () => {
    const { models } = await client.listModels();
    expect(models.map(({ name }) => name)).toEqual([server.gateway.modelName]);
    expect(await client.getModel()).toEqual({ model: models[0] });
    expect(await client.getModel({ model: server.gateway.modelName })).toEqual({ model: models[0] });
  });
});
