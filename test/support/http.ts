import { connect } from 'node:net';
import { create, createFileRegistry, type FileRegistry, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import type { Gateway } from '../../src/gateway/main.js';
import { readDescriptorSet } from '../../src/shared/grpc/descriptors.js';

/** Response over HTTP. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any;
}

/** Asks a gateway's HTTP server; an object is sent as JSON. */
export async function ask(
  gateway: Gateway,
  path: string,
  body?: unknown,
  options: { readonly method?: string; readonly headers?: Record<string, string>; readonly signal?: AbortSignal } = {},
): Promise<HttpResponse> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const answer = await fetch(`${baseOf(gateway)}${path}`, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...options.headers },
    ...(body !== undefined && { body: (isRaw ? body : JSON.stringify(body)) as string }),
    ...(options.signal && { signal: options.signal }),
  });
  const text = await answer.text();
  const isJson = answer.headers.get('content-type')?.startsWith('application/json') === true;
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    json: isJson && text !== '' ? JSON.parse(text) : undefined,
  };
}

/** The address of a gateway's HTTP server. */
export function baseOf({ httpServer }: Gateway): string {
  if (httpServer === undefined) throw new Error('the gateway has no HTTP server');
  return `http://127.0.0.1:${httpServer.port}`;
}

/** The public API, as Connect's clients are given what is known at run time alone. */
export function apiRegistry(): FileRegistry {
  const files = readDescriptorSet().map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  return createFileRegistry(create(FileDescriptorSetSchema, { file: files }));
}

export const API_SERVICE = 'rocmforge.v1.InferenceService';

/** The events of a stream of server-sent events, as they were sent. */
export function eventsOf(text: string): readonly string[] {
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      if (!event.startsWith('data: ')) throw new Error(`no event: ${event}`);
      return event.slice('data: '.length);
    });
}

/** Bytes that a connection receives for bytes that are sent as they are, until it ends. */
export function rawAnswer({ httpServer }: Gateway, bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(httpServer?.port ?? 0, '127.0.0.1', () => socket.write(bytes));
    let heard = '';
    socket.on('data', (data) => {
      heard += data.toString();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(heard));
  });
}
