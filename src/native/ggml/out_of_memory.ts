/** A device has not enough memory. Callers catch it and try with less. */
export class OutOfMemory extends Error {}
