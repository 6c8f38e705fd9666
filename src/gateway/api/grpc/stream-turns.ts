import type { Http2Server, Http2Session, ServerHttp2Stream } from 'node:http2';

/** Streams of one connection that begin in one turn of the loop. */
export const STREAMS_A_TURN = 8;

/** Begins a stream; returns false where it is gone already. */
type Begin = () => boolean;

/**
 * Lets few streams of a connection begin in each turn of the loop. One read brings hundreds, and all that answers to one runs
 * within the read: others' streams would wait for the last of them. Those that are reset before their turn begin nowhere,
 * which is what a flood of resets costs most (CVE-2023-44487).
 */
export class StreamTurns {
  /** Streams of each connection that began in this turn. */
  private readonly begun = new Map<Http2Session, number>();
  /** Those that wait, a connection's in their order. */
  private readonly waiting = new Map<Http2Session, Begin[]>();
  private isScheduled = false;

  /** Stands before whoever listens for streams of a server. */
  watch(server: Http2Server): void {
    const emit: (event: string | symbol, ...told: unknown[]) => boolean = server.emit.bind(server);
    server.emit = (event: string | symbol, ...told: unknown[]) => {
      if (event !== 'stream') return emit(event, ...told);
      const stream = told[0] as ServerHttp2Stream;
      const begin = (): boolean => !stream.closed && !stream.destroyed && emit(event, ...told);
      if (stream.session !== undefined) this.take(stream.session, begin);
      return true;
    };
  }

  private take(session: Http2Session, begin: Begin): void {
    this.schedule();
    const queue = this.waiting.get(session);
    const begun = this.begun.get(session) ?? 0;
    if (queue !== undefined) queue.push(begin);
    else if (begun >= STREAMS_A_TURN) this.waiting.set(session, [begin]);
    else if (begin()) this.begun.set(session, begun + 1);
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => this.turn());
  }

  private turn(): void {
    this.isScheduled = false;
    this.begun.clear();
    for (const [session, queue] of [...this.waiting]) {
      this.waiting.delete(session);
      let begun = 0;
      let next = 0;
      while (begun < STREAMS_A_TURN && next < queue.length) if ((queue[next++] as Begin)()) begun += 1;
      if (begun > 0) this.begun.set(session, begun);
      if (next < queue.length) this.waiting.set(session, queue.slice(next));
    }
    if (this.begun.size > 0) this.schedule();
  }
}
