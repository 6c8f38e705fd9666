import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { MetricsSnapshot } from '../../src/cli/bench/prometheus.js';

/** Cost of streams over HTTP at the gateway. */
export interface HttpCost {
  readonly us: number;
  readonly events: number;
}

/** Tokens after which a gateway's code is optimized: before them one costs up to a third more. */
const WARM_UP_TOKENS = 200_000;
const PROMPT = Array.from({ length: 16 }, (_, i) => 259 + i);

/**
 * Microseconds of the gateway's processor time for each token that comes as a server-sent event: `streams` completions at
 * once, each over a connection of its own, as HTTP/1.1 has it. The clients read bytes and count.
 */
export async function httpCostPerToken(
  port: number,
  metrics: string,
  streams: number,
  tokens: number,
  /** The authority of the server's certificate, where it speaks TLS. */
  ca?: Buffer,
  warmUpTokens = WARM_UP_TOKENS,
): Promise<HttpCost> {
  if (warmUpTokens > 0) await offer(port, streams, Math.ceil(warmUpTokens / streams), ca);
  const before = await MetricsSnapshot.read(metrics);
  const events = await offer(port, streams, tokens, ca);
  const after = await MetricsSnapshot.read(metrics);
  const seconds = after.get('process_cpu_seconds_total') - before.get('process_cpu_seconds_total');
  return { us: (1e6 * seconds) / (streams * tokens), events: events / (streams * tokens) };
}

/** @returns the events that came */
async function offer(port: number, streams: number, tokens: number, ca?: Buffer): Promise<number> {
  const counts = await Promise.all(Array.from({ length: streams }, () => stream(port, tokens, ca)));
  return counts.reduce((sum, count) => sum + count, 0);
}

function stream(port: number, tokens: number, ca?: Buffer): Promise<number> {
  const body = JSON.stringify({ prompt: PROMPT, max_tokens: tokens, ignore_eos: true, stream: true });
  const head = `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n`;
  return new Promise((resolve, reject) => {
    let events = 0;
    let last = '';
    const send = () => socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
    const socket = ca ? connectTls({ port, host: '127.0.0.1', ca }, send) : connect(port, '127.0.0.1', send);
    socket.on('data', (data) => {
      const text = data.toString('latin1');
      for (let at = text.indexOf('data: {'); at >= 0; at = text.indexOf('data: {', at + 1)) events += 1;
      last = (last + text).slice(-64);
    });
    socket.on('error', reject);
    socket.on('close', () =>
      last.includes('[DONE]') ? resolve(events) : reject(new Error(`a stream ended with ${last}`)),
    );
  });
}
