/** The thread that reads images: an encoder blocks its caller for seconds, and neither answers nor decoding may wait. */
import { errorText } from "../../../lib/error_text.ts";
import { GgufError } from "../../../lib/gguf/parse.ts";
import { describeProjector, type Projector } from "../../../lib/vision/projector.ts";
import { openBackend } from "../../../native/ggml/ggml.ts";
import { headerOf } from "../../decoder/header.ts";
import { type Encoder, openEncoder } from "./encoder.ts";
import type { FromVision, SeenPiece, ToVision } from "./messages.ts";
import type { Picture } from "./resize.ts";
import { patchesOf, piecesOf } from "./squares.ts";

declare const self: {
  onmessage: (event: { data: ToVision }) => void;
  postMessage: (message: FromVision, transfer?: ArrayBuffer[]) => void;
};

let opened: { encoder: Encoder; projector: Projector } | null = null;

const reason = (error: unknown) => errorText(error);

self.onmessage = ({ data: message }) => {
  if (message.type === "open") open(message);
  else read(message.id, message.picture);
};

function open({ dataDir, path, threads, gpus }: Extract<ToVision, { type: "open" }>) {
  try {
    const header = headerOf(path);
    const projector = describeProjector(header);
    const [index] = gpus;
    const device =
      index === undefined ? ({ kind: "cpu", threads } as const) : ({ kind: "cuda", index, kernels: false } as const);
    const encoder = openEncoder(openBackend(dataDir, device), path, header, projector);
    opened = { encoder, projector };
    self.postMessage({ type: "opened", projector, bytes: encoder.bytes });
  } catch (error) {
    self.postMessage({ type: "unopened", error: reason(error), unusable: error instanceof GgufError });
  }
}

function read(id: number, picture: Picture) {
  try {
    if (!opened) throw new Error("the projector is not open");
    const { encoder, projector } = opened;
    const pieces = piecesOf(picture, projector).map((piece): SeenPiece => {
      if (typeof piece === "string") return piece;
      const embeddings = encoder.encode(patchesOf(piece, projector));
      const digest = new Bun.CryptoHasher("sha256").update(piece.pixels).digest();
      return { rows: projector.rows, embeddings, key: new Int32Array(new Uint8Array(digest).buffer) };
    });
    const buffers = pieces.flatMap((piece) =>
      typeof piece === "string" ? [] : [piece.embeddings.buffer as ArrayBuffer],
    );
    self.postMessage({ type: "seen", id, pieces }, buffers);
  } catch (error) {
    self.postMessage({ type: "unseen", id, error: reason(error) });
  }
}
