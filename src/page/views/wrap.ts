/** Characters from which on a field does not wrap its text: a browser takes seconds to break a line of 1 MB. */
const MOST_WRAPPED = 50_000;

/** Class of a field with so many characters. */
export const wrapOf = (characters: number): string => (characters > MOST_WRAPPED ? 'unwrapped' : '');
