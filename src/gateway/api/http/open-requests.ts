import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionCalls } from '../grpc/call-guard.js';
import { nameOf } from '../grpc/connection-guard.js';
import { connectionOf, type Exchange } from './exchange.js';

interface Connection {
  started: number;
  answered: number;
  open: Exchange | undefined;
}

/** Requests that are open, by connection. */
export class OpenRequests {
  private readonly ofConnection = new Map<string, Connection>();
  private readonly open = new Set<Exchange>();

  /** Requests that have arrived as a whole and whose answers are still on their way. */
  get unanswered(): number {
    let count = 0;
    for (const { hasArrived } of this.open) if (hasArrived) count += 1;
    return count;
  }

  /** A request that has not arrived costs nothing to keep open, so a connection that only sends one may be closed. */
  callsOf(connection: string): ConnectionCalls {
    const { started = 0, answered = 0, open } = this.ofConnection.get(connection) ?? {};
    return { started, working: open?.hasArrived ? 1 : 0, answered };
  }

  forgetConnection(connection: string): void {
    this.ofConnection.delete(connection);
  }

  /** The request that is open on a socket. */
  on(socket: Socket): Exchange | undefined {
    return this.ofConnection.get(nameOf(socket))?.open;
  }

  isBusy(request: IncomingMessage): boolean {
    return this.ofConnection.get(connectionOf(request))?.open !== undefined;
  }

  add(exchange: Exchange): void {
    const name = connectionOf(exchange.request);
    const connection = this.ofConnection.get(name) ?? { started: 0, answered: 0, open: undefined };
    connection.started += 1;
    connection.open = exchange;
    this.ofConnection.set(name, connection);
    this.open.add(exchange);
    exchange.response.once('finish', () => {
      connection.answered += 1;
    });
    exchange.response.once('close', () => {
      this.open.delete(exchange);
      connection.open = undefined;
    });
  }
}
