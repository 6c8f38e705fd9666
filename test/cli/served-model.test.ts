import { afterAll, beforeAll, expect, it } from 'vitest';
import { rocmforge } from '../support/command-line.js';
import { type FakeGateway, spelled, startFakeGateway } from '../support/fake-gateway.js';
import { writeRandomModel } from '../support/random-model.js';

let server: FakeGateway;
beforeAll(async () => {
  const moreModels = [{ model: writeRandomModel({ contextLength: 64 }), modelName: 'small' }];
  server = await startFakeGateway({ script: spelled('ok'), modelName: 'large', moreModels, load: 'on-demand' });
});
afterAll(() => server.stop());

it('generate asks a gateway for the model that --model names, else for its first', async () => {
  const prompt = 'long '.repeat(40);
  const args = ['generate', '--address', server.address, '--max-tokens', '4'];
  expect(await rocmforge(...args, prompt)).toMatchObject({ code: 0, stdout: 'ok\n' });
  expect(await rocmforge(...args, '--model', 'large', prompt)).toMatchObject({ code: 0, stdout: 'ok\n' });
  expect((await rocmforge(...args, '--model', 'small', prompt)).stderr).toContain('PROMPT_TOO_LONG');
  expect((await rocmforge(...args, '--model', 'other', prompt)).stderr).toContain('only "large", "small"');
});

it('chat says before anything is typed that a gateway does not serve the model', async () => {
  const { code, stderr } = await rocmforge('chat', '--address', server.address, '--model', 'other');
  expect([code, stderr]).toEqual([1, expect.stringContaining('MODEL_NOT_FOUND')]);
});
