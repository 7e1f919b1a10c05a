/** Why an NVIDIA card of this machine stays unused, and what to do about it. Pure. */

/** CUDA 13 and the libraries made with it need this driver release. */
export const OLDEST_DRIVER = 580;

export type GpuFacts = {
  /** Cards that nvidia-smi lists. */
  cards: readonly { name: string; driverVersion: string }[];
  /** nvidia-smi is installed. */
  hasTool: boolean;
  /** Signs of a card that do not come from nvidia-smi. */
  signs: readonly string[];
  /** The executable has a CUDA library inside. */
  hasLibrary: boolean;
};

/** `why` and `fix` are clauses without a full stop; `sentence` joins them. */
export type GpuAdvice = { why: string; fix: string };

export const sentence = ({ why, fix }: GpuAdvice): string => `${why}; to use the GPU, ${fix}.`;

/** Null if there is no card, or if nothing prevents its use. */
export function unusedGpu({ cards, hasTool, signs, hasLibrary }: GpuFacts): GpuAdvice | null {
  if (cards.length === 0) return signs.length === 0 ? null : unlisted(signs, hasTool);
  const old = oldDriver(cards);
  if (old) return old;
  if (hasLibrary) return null;
  return {
    why: `${namesOf(cards)} stays unused: this executable has no CUDA library inside`,
    fix: "run ./install.sh in a checkout on this machine, which builds an executable for the card",
  };
}

const namesOf = (cards: GpuFacts["cards"]) => [...new Set(cards.map(({ name }) => name))].join(", ");

function unlisted(signs: readonly string[], hasTool: boolean): GpuAdvice {
  const missing = hasTool ? "nvidia-smi lists no card" : "nvidia-smi is not installed";
  return {
    why: `An NVIDIA card stays unused: the machine has ${signs[0]}, but ${missing}`,
    fix: `install the NVIDIA driver R${OLDEST_DRIVER} or newer with nvidia-smi; a container also needs --gpus all`,
  };
}

/** Null if a version cannot be read: the library itself then reports the problem. */
export function oldDriver(cards: GpuFacts["cards"]): GpuAdvice | null {
  const old = cards.find(({ driverVersion }) => Number.parseInt(driverVersion, 10) < OLDEST_DRIVER);
  if (!old) return null;
  return {
    why: `${old.name} stays unused: the NVIDIA driver ${old.driverVersion} is too old for CUDA 13`,
    fix: `update the driver to R${OLDEST_DRIVER} or newer`,
  };
}
