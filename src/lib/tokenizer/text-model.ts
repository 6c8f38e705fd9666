import type { IdBuffer } from './id-buffer.js';

/** Turns ordinary text, in which no token is recognised by its name, into ids. */
export interface TextModel {
  /**
   * Appends the ids of `text` to `output`.
   *
   * @param text           well-formed and not empty
   * @param followsSpecial whether the text starts a prompt or comes right after a token recognised by name
   */
  encode(text: string, followsSpecial: boolean, output: IdBuffer): void;
}
