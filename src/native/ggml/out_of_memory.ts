/** A device has less memory than was asked for. Whoever catches it asks for less. */
export class OutOfMemory extends Error {}
