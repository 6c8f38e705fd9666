import { Worker } from 'node:worker_threads';

/**
 * The device of a fake executor: a thread that sleeps. Steps take their time one after the other, and the next begins
 * when the last one ended, not when somebody noticed; so steps that queue run at the given rate exactly.
 */
const THREAD = `
  const { parentPort } = require('node:worker_threads');
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  const now = () => performance.timeOrigin + performance.now();
  let freeAt = 0;
  parentPort.on('message', ({ arrivedAt, ms }) => {
    freeAt = Math.max(arrivedAt, freeAt) + ms;
    const left = freeAt - now();
    if (left > 0) Atomics.wait(sleeper, 0, 0, left);
    parentPort.postMessage(0);
  });
`;

/** Tells when steps are over. */
export class StepClock {
  private readonly thread = new Worker(THREAD, { eval: true });
  private readonly waiting: (() => void)[] = [];

  constructor() {
    this.thread.on('message', () => this.waiting.shift()?.());
  }

  /** Resolves when a step of `ms` milliseconds that arrived now is over, behind those that came before it. */
  run(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.thread.postMessage({ arrivedAt: performance.timeOrigin + performance.now(), ms });
    });
  }

  async stop(): Promise<void> {
    await this.thread.terminate();
  }
}
