/** The first bytes of every block of a prompt on the disk, a part of its name and of its seal. Another format needs another one. */
export const BLOCK_FORMAT = "VKP2";
