/** What sequences generate first, by how often a token is in their prompts: agents come back with more of them each turn. */
export interface TurnScripts {
  readonly mark: number;
  /** The last one is that of all counts beyond. */
  readonly scripts: readonly (readonly number[])[];
}

/** Finds the script of a prompt, once for each sequence. */
export class ScriptChoice {
  private readonly chosen = new WeakMap<Uint32Array, readonly number[]>();

  /** @param script of all sequences, or by their prompts */
  constructor(private readonly script: readonly number[] | TurnScripts) {}

  /** @param known the tokens of a sequence, of which the first are its prompt */
  of(known: Uint32Array, promptTokens: number): readonly number[] {
    const { script } = this;
    if (!('mark' in script)) return script;
    const before = this.chosen.get(known);
    if (before !== undefined) return before;
    const { mark, scripts } = script;
    const count = known.subarray(0, promptTokens).reduce((sum, token) => sum + Number(token === mark), 0);
    const found = scripts[Math.min(count, scripts.length - 1)] ?? [];
    this.chosen.set(known, found);
    return found;
  }
}
