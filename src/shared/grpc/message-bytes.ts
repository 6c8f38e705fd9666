/** The largest message either side accepts: room for a prompt of a million tokens. */
export const MAX_MESSAGE_BYTES = 16 << 20;
