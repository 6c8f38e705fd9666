/** A piece of what an assistant's turn is, in the order in which the model wrote it. */
export type ResponseEvent =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** A call begins. `index` counts the calls of the turn from 0. */
  | { readonly kind: 'call'; readonly index: number; readonly id: string; readonly name: string }
  /** The next piece of the JSON text of the call's arguments. */
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string }
  /** The call's arguments are whole. Never comes for a call that the end of the text has cut. */
  | { readonly kind: 'call_end'; readonly index: number };

/** A function that was offered to the model. */
export interface OfferedTool {
  readonly name: string;
  /** A JSON Schema; empty for a function without parameters. */
  readonly parametersJson: string;
}
