/** tokenizer.model of SentencePiece (a protobuf message) → vocabulary. Bounded: every length is checked before use. */
import { CheckpointError } from "../families.ts";
import { type AddedToken, createTables, TOKEN, type Vocabulary } from "./vocabulary.ts";

type Piece = { text: string; score: number; type: number };
type Sentencepiece = { pieces: Piece[]; modelType: number; addDummyPrefix: boolean };

const UNIGRAM = 1;
const BPE = 2;
const ADDED_SCORE = -1000;

export function vocabularyOfSentencepiece(bytes: Uint8Array, rows: number, added: readonly AddedToken[]): Vocabulary {
  const { pieces, modelType, addDummyPrefix } = parseSentencepiece(bytes);
  if (modelType !== BPE)
    throw new CheckpointError(
      `tokenizer.model is a ${modelType === UNIGRAM ? "unigram" : "word or character"} model, but only BPE is supported`,
    );
  const tables = createTables(rows);
  const scores: number[] = Array(rows).fill(ADDED_SCORE);
  for (const [id, { text, score, type }] of pieces.entries()) {
    tables.put(id, text, type);
    scores[id] = score;
  }
  tables.addAll(added);
  return {
    model: "llama",
    pre: "default",
    tokens: tables.finish(),
    types: tables.types,
    scores,
    addSpacePrefix: addDummyPrefix,
  };
}

export function parseSentencepiece(bytes: Uint8Array): Sentencepiece {
  const found: Sentencepiece = { pieces: [], modelType: UNIGRAM, addDummyPrefix: true };
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) found.pieces.push(pieceOf(bytesIn(field)));
    if (field.number === 2)
      for (const inner of fieldsOf(bytesIn(field))) if (inner.number === 3) found.modelType = Number(inner.value);
    if (field.number === 3)
      for (const inner of fieldsOf(bytesIn(field)))
        if (inner.number === 3) found.addDummyPrefix = Number(inner.value) !== 0;
  }
  if (found.pieces.length === 0) throw damaged("it has no tokens");
  return found;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true }); // a byte order mark is a token

function pieceOf(bytes: Uint8Array): Piece {
  const piece: Piece = { text: "", score: 0, type: TOKEN.normal };
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) piece.text = utf8.decode(bytesIn(field));
    if (field.number === 2) piece.score = floatIn(bytesIn(field));
    if (field.number === 3) piece.type = Number(field.value);
  }
  if (piece.text === "") throw damaged("a token is empty");
  if (piece.type < TOKEN.normal || piece.type > TOKEN.byte || !Number.isFinite(piece.score))
    throw damaged(`a token has the type ${piece.type} and the score ${piece.score}`);
  return piece;
}

type Field = { number: number; value: Uint8Array | number };

const bytesIn = ({ number, value }: Field): Uint8Array => {
  if (typeof value === "number") throw damaged(`field ${number} has the wrong type`);
  return value;
};

function floatIn(bytes: Uint8Array): number {
  if (bytes.byteLength !== 4) throw damaged("a score is not a float");
  return new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
}

const FIXED: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  const varint = (): number => {
    let [value, scale] = [0, 1];
    for (let i = 0; i < 10; i++) {
      const byte = bytes[at++];
      if (byte === undefined) throw damaged("it ends inside a number");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw damaged("a number is too long");
  };
  while (at < bytes.byteLength) {
    const tag = varint();
    const [number, wire] = [Math.floor(tag / 8), tag % 8];
    if (wire === 0) yield { number, value: varint() };
    else {
      const length = FIXED[wire] ?? (wire === 2 ? varint() : Number.NaN);
      if (!(at + length <= bytes.byteLength)) throw damaged("a field is longer than the file");
      yield { number, value: bytes.subarray(at, at + length) };
      at += length;
    }
  }
}

const damaged = (why: string) =>
  new CheckpointError(`tokenizer.model is not a SentencePiece file, or it is damaged: ${why}`);
