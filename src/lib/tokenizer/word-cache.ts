import { IdBuffer, type IdSink } from './id-buffer.js';

/** Longer words are rarely met twice. UTF-16 units. */
const LONGEST_CACHED_WORD = 48;
const MAX_WORDS = 65_536;

/** Ids of words already tokenized: the words of a language repeat, their merges need not. */
export class WordCache {
  private readonly ids = new Map<string, Int32Array>();

  /** Appends the ids of `word` to `output`, computing them with `encode` when they are not known yet. */
  encode<Sink extends IdSink>(
    word: string,
    output: Sink,
    encode: (word: string, output: Sink | IdBuffer) => void,
  ): void {
    if (word.length > LONGEST_CACHED_WORD) {
      encode(word, output);
      return;
    }
    let ids = this.ids.get(word);
    if (ids === undefined) {
      const fresh = new IdBuffer(word.length);
      encode(word, fresh);
      ids = fresh.slice();
      // Starting over keeps the memory bounded and costs one miss a word; what is in use returns at once.
      if (this.ids.size >= MAX_WORDS) this.ids.clear();
      // A slice of a large text would keep all of that text alive.
      this.ids.set(detached(word), ids);
    }
    output.append(ids);
  }
}

function detached(word: string): string {
  return Buffer.from(word, 'utf16le').toString('utf16le');
}
