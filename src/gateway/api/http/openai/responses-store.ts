import { RocmForgeError } from '../../../../shared/errors.js';
import type { ChatMessage } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { StoredContext, StoredReferences } from './responses-form.js';
import type { EndedResponse } from './responses-writer.js';

/** Limits of the stored responses of all clients, and of one. */
const DEFAULT_LIMITS = { bytes: 64 << 20, bytesOfClient: 16 << 20, responsesOfClient: 256 } as const;
/** Charge of an entry in addition to its texts. */
const ENTRY_BYTES = 512;

interface Entry {
  readonly client: string;
  readonly response: EndedResponse;
  /** The conversation, with its output. */
  readonly turns: readonly ChatMessage[];
  readonly bytes: number;
}

/**
 * Responses that clients may refer to later, in memory: those of a client are seen by no other. Where there is no room, the
 * oldest are dropped: first the client's own, then anybody's.
 */
export class ResponseStore {
  /** By id, oldest first. */
  private readonly entries = new Map<string, Entry>();
  private bytes = 0;

  constructor(private readonly limits: Readonly<Record<keyof typeof DEFAULT_LIMITS, number>> = DEFAULT_LIMITS) {}

  /** @param before the conversation before the response */
  put(client: string, response: EndedResponse, before: readonly ChatMessage[]): void {
    const turns = [...before, response.turn];
    const bytes = ENTRY_BYTES + 2 * (response.json.length + turns.reduce((sum, turn) => sum + charactersOf(turn), 0));
    if (bytes > this.limits.bytesOfClient) return;
    this.drop(response.id);
    this.entries.set(response.id, { client, response, turns, bytes });
    this.bytes += bytes;
    this.makeRoom(client);
  }

  /** A response of a client's. @throws RocmForgeError `RESPONSE_NOT_FOUND` */
  get(client: string, id: string): EndedResponse {
    return this.entry(client, id).response;
  }

  /** @throws RocmForgeError `RESPONSE_NOT_FOUND` */
  delete(client: string, id: string): void {
    this.entry(client, id);
    this.drop(id);
  }

  /** Stored responses that a request refers to. @throws RocmForgeError `RESPONSE_NOT_FOUND` */
  resolve(client: string, { responseId, itemIds }: StoredReferences): StoredContext {
    const turns = responseId === undefined ? [] : this.entry(client, responseId, 'previous_response_id').turns;
    const items = itemIds.map((id) => {
      const [, key = ''] = /^[a-z]+_(.+)_\d+$/.exec(id) ?? [];
      const { output } = this.entry(client, `resp_${key}`, 'input').response;
      return [id, output.find((item) => item.id === id)] as const;
    });
    return { turns, items: Object.fromEntries(items) };
  }

  private entry(client: string, id: string, field = 'id'): Entry {
    const entry = this.entries.get(id);
    if (entry !== undefined && entry.client === client) return entry;
    const message = `the response "${id.slice(0, 128)}" is not stored here (any more); send the whole conversation as input`;
    throw new RocmForgeError('RESPONSE_NOT_FOUND', message, { field });
  }

  private makeRoom(client: string): void {
    const own = [...this.entries].filter(([, entry]) => entry.client === client);
    let ownBytes = own.reduce((sum, [, { bytes }]) => sum + bytes, 0);
    let left = own.length;
    for (const [id, { bytes }] of own) {
      if (left <= this.limits.responsesOfClient && ownBytes <= this.limits.bytesOfClient) break;
      this.drop(id);
      ownBytes -= bytes;
      left -= 1;
    }
    for (const id of this.entries.keys()) {
      if (this.bytes <= this.limits.bytes) break;
      this.drop(id);
    }
  }

  private drop(id: string): void {
    this.bytes -= this.entries.get(id)?.bytes ?? 0;
    this.entries.delete(id);
  }
}

function charactersOf({ content, reasoning, toolCalls }: ChatMessage): number {
  return toolCalls.reduce(
    (sum, call) => sum + call.name.length + call.argumentsJson.length,
    content.length + reasoning.length,
  );
}
