/**
 * Minimal charge of a frame of a request, in bytes: each is an object and an event of its own, though it may hold
 * one byte (135 bytes measured; the rest is for the time that it takes: a packet holds 10,000 of them).
 */
export const MIN_FRAME_CHARGE = 1024;
