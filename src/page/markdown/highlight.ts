/** A part of a line and the class of its color; empty: none. */
export interface HighlightedPart {
  readonly text: string;
  readonly scope: string;
}

export type HighlightedLine = readonly HighlightedPart[];

/** Undefined: the language is unknown. */
export type Highlighter = (code: string, language: string) => readonly HighlightedLine[] | undefined;

let loading: Promise<Highlighter> | undefined;

/** The highlighter, a file of its own that is loaded with the first code; again with the next, if it could not be. */
export function loadHighlighter(): Promise<Highlighter> {
  loading ??= import('./highlighter.js').then(
    ({ highlight }) => highlight,
    (error: unknown) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}
