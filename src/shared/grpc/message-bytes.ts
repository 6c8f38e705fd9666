/** The largest message either side accepts: room for a prompt of a million tokens. */
export const MAX_MESSAGE_BYTES = 16 << 20;

/** The largest result of a step: an encoder returns the hidden states of all of its rows. */
export const MAX_RESULT_BYTES = 128 << 20;
