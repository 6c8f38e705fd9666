import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../support/fake-gateway.js';
import { Terminal, terminalIsMissing } from '../support/terminal.js';

const chatTemplate = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}';
const ANSWER = 'So it is.';
const LONG_ANSWER = `It was a ${'very '.repeat(60)}long day.`;

let quick: FakeGateway;
let slow: FakeGateway;
let small: FakeGateway;
beforeAll(async () => {
  quick = await startFakeGateway({ script: spelled(ANSWER), model: { chatTemplate } });
  slow = await startFakeGateway({ script: spelled(LONG_ANSWER), model: { chatTemplate }, stepMs: 25 });
  small = await startFakeGateway({
    script: spelled(ANSWER),
    model: { chatTemplate, contextLength: 128 },
    maxContext: 128,
  });
});
afterAll(async () => {
  await Promise.all([quick, slow, small].map((server) => server.stop()));
});

const newFolder = () => mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const ENTER = '\r';

/** A chat at a terminal, once it asks. */
async function chatting(server: FakeGateway, { state = newFolder(), args = [] as string[] } = {}): Promise<Terminal> {
  const terminal = Terminal.rocmforge(['chat', '--address', server.address, ...args], { XDG_STATE_HOME: state });
  await terminal.until(/> /);
  return terminal;
}

/** Says something, and waits until the answer is over. @returns what was shown meanwhile */
async function said(terminal: Terminal, keys: string): Promise<string> {
  terminal.type(`${keys}${ENTER}`);
  return terminal.until(/\(\d+ tokens.*\)/);
}

/** The conversation, as /save writes it. */
async function saved(terminal: Terminal): Promise<readonly (readonly [role: string, content: string])[]> {
  const file = path.join(newFolder(), 'talk.json');
  terminal.type(`/save ${file}${ENTER}`);
  await terminal.until(/\(kept in [^\n]*\)/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const { messages } = JSON.parse(readFileSync(file, 'utf8')) as { messages: { role: string; content: string }[] };
  return messages.map(({ role, content }) => [role, content] as const);
}

async function left(terminal: Terminal): Promise<void> {
  terminal.type(`/exit${ENTER}`);
  expect(await terminal.code).toBe(0);
}

const missing = terminalIsMissing();
if (missing !== undefined) console.log(`skipped: ${missing}`);
describe.skipIf(missing !== undefined)('chat at a terminal', () => {
  it('tells tokens a second in a dim line', async () => {
    const terminal = await chatting(quick);
    expect(await said(terminal, 'Hello')).toMatch(/So it is\.\r\n.*\(10 tokens, [\d.]+ tokens\/s\)/);
    expect(terminal.shown).toContain('\u001b[2m(10 tokens');
    await left(terminal);
  });

  it('stops an answer by Ctrl-C, keeps what was said, and goes on', async () => {
    const terminal = await chatting(slow);
    terminal.type(`Tell me${ENTER}`);
    await terminal.until(/It was a very/);
    terminal.type('\x03');
    expect(await terminal.until(/\(stopped after \d+ tokens\)/)).not.toContain('long day');
    await terminal.until(/> /);
    const turns = await saved(terminal);
    expect(turns.map(([role]) => role)).toEqual(['user', 'assistant']);
    expect(LONG_ANSWER.startsWith(turns[1]?.[1] as string)).toBe(true);
    await left(terminal);
  });

  it('leaves by Ctrl-C twice, in an answer and outside', async () => {
    const answering = await chatting(slow);
    answering.type(`Tell me${ENTER}`);
    await answering.until(/It was a very/);
    answering.type('\x03\x03');
    expect(await answering.code).toBe(0);
    const waiting = await chatting(quick);
    waiting.type('\x03');
    await waiting.until(/\(Ctrl-C again leaves\)/);
    waiting.type('\x03');
    expect(await waiting.code).toBe(0);
  });

  it('takes what is pasted as one message, and begins another line by Alt-Enter and Ctrl-J', async () => {
    const terminal = await chatting(quick);
    await said(terminal, '\x1b[200~one\ntwo\x1b[2J\r\nthree\x1b[201~');
    await said(terminal, 'four\x1b\rfive\nsix');
    expect((await saved(terminal)).filter(([role]) => role === 'user')).toEqual([
      ['user', 'one\ntwo[2J\nthree'],
      ['user', 'four\nfive\nsix'],
    ]);
    await left(terminal);
  });

  it('lists its commands by /help, names one that is none, and sends what begins with //', async () => {
    const terminal = await chatting(quick);
    terminal.type(`/help${ENTER}`);
    const help = await terminal.until(/Ctrl-C stops an answer/);
    for (const command of ['/regenerate', '/system', '/save', '/load', '/reset', '/exit'])
      expect(help).toContain(command);
    terminal.type(`/hlep${ENTER}`);
    await terminal.until(/\(there is no \/hlep; \/help lists/);
    await said(terminal, '//hlep');
    expect((await saved(terminal))[0]).toEqual(['user', '/hlep']);
    await left(terminal);
  });

  it('sets a system message, answers anew, forgets, and goes on with what was kept', async () => {
    const terminal = await chatting(quick, { args: ['--system', 'Be kind.'] });
    terminal.type(`/regenerate${ENTER}`);
    await terminal.until(/\(no message was given\)/);
    await said(terminal, 'Hello');
    terminal.type(`/system Be brief.${ENTER}`);
    await terminal.until(/\(the system message is set\)/);
    await said(terminal, '/regenerate');
    const turns = [
      ['system', 'Be brief.'],
      ['user', 'Hello'],
      ['assistant', ANSWER],
    ];
    expect(await saved(terminal)).toEqual(turns);
    const file = path.join(newFolder(), 'talk.json');
    terminal.type(`/save ${file}${ENTER}`);
    await terminal.until(/\(kept in/);
    terminal.type(`/reset${ENTER}`);
    await terminal.until(/\(forgotten\)/);
    expect(await saved(terminal)).toEqual([turns[0]]);
    await left(terminal);

    const later = await chatting(quick);
    later.type(`/load ${file}${ENTER}`);
    await later.until(/\(2 turns of /);
    expect(await saved(later)).toEqual(turns);
    writeFileSync(file, '{"messages": [{"role": "king"}]}');
    later.type(`/load ${file}${ENTER}`);
    await later.until(/it holds no list of messages with roles\)/);
    expect(await saved(later)).toEqual(turns);
    await left(later);
  });

  it('drops the oldest turns of a full context, and says so', async () => {
    const terminal = await chatting(small);
    await said(terminal, `first ${'a'.repeat(40)}`);
    expect(await said(terminal, `second ${'b'.repeat(60)}`)).toContain(
      '(the context is full: the oldest turn is dropped)',
    );
    expect((await saved(terminal)).map(([, content]) => content.slice(0, 6))).toEqual(['second', 'So it ']);
    terminal.type(`${'c'.repeat(200)}${ENTER}`);
    await terminal.until(/\(PROMPT_TOO_LONG: /);
    await left(terminal);
  });

  it('has what was typed in earlier conversations, in a file that is the user’s alone', async () => {
    const state = newFolder();
    const before = await chatting(quick, { state });
    await said(before, 'a rare question');
    await left(before);
    const file = path.join(state, 'rocmforge', 'chat-history');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, `${'old\n'.repeat(3000)}${readFileSync(file, 'utf8')}`, { mode: 0o600 });
    const after = await chatting(quick, { state });
    // Up twice: /exit, and what came before it.
    expect(await said(after, '\x1b[A\x1b[A')).toContain('a rare question');
    expect(readFileSync(file, 'utf8').split('\n').length).toBeLessThan(1010);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await left(after);
  });

  it('tells a wrong address', async () => {
    // Nobody answers at an address that is for documentation alone.
    for (const address of ['unix:/nowhere/x.sock', '192.0.2.1:50051']) {
      const terminal = Terminal.rocmforge(['chat', '--address', address]);
      await terminal.until(/GATEWAY_UNAVAILABLE: no gateway answers at /);
      expect(await terminal.code).toBe(1);
    }
    expect(existsSync('/nowhere')).toBe(false);
  });
});
