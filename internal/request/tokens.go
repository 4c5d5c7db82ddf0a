package request

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// The approximate tokeniser
//
// A router needs token ids only to cut a prompt into blocks that are equal
// when, and only when, an engine would reuse them. Until the engines' own ids
// are asked for, these stand in for them. The simulated engines use the very
// same ids, so for them the approximation is exact.
//
// Text is cut into pieces of 4 bytes (about what a piece of English text is in
// the vocabularies of Llama-3 and Qwen). The id of a piece is its bytes, little
// endian:
//
//	"How are you?"  →  "How "     "are "     "you?"
//	                   0x20776f48 0x20657261 0x3f756f79
//
// Cutting restarts at every boundary of a message or part, so that text added
// behind a boundary moves no piece before it. A last piece of 1 to 3 bytes has
// 0xF8 + its length in the top byte:
//
//	"Hi"            →  0xfa006948
//
// No byte of valid UTF-8 is above 0xF4, so ids from 0xF8000000 on are never
// text. Of these, 0xFD…… are placeholders for what is not text (8 ids from the
// SHA-256 of an image's part, so that another image is another prompt from
// there on), and 0xFE…… are what a chat template writes around the text:
//
//	chat_template, its kwargs, reasoning_effort, documents, tools   (if given)
//	for each message:
//	    header of its role                       1 id for the usual roles
//	    content, part separator, content, …
//	    name, reasoning, tool_calls, …           (if given)
//	    end of message
//	header of the assistant's answer             (the generation prompt)
//
// What configures the template comes before the messages, because templates
// put it into the system part. An engine that goes on with pieces of text and
// then [EndOfMessage] has made exactly the ids that its answer gets when it is
// sent back as an assistant message in the next turn.
//
// Ids of text can be turned back into text: they must be kept as secret as it.

// EndOfMessage is the id that closes every message, and so ends an answer.
const EndOfMessage uint32 = 0xFE000001

// EndsAnswer says whether an engine that has generated id stops there.
func EndsAnswer(id uint32) bool { return id == EndOfMessage }

const (
	idPart       uint32 = 0xFE000002 // between two parts of one message
	idRole       uint32 = 0xFE000003 // header of an unusual role, whose name follows
	idHeaderEnd  uint32 = 0xFE000004 // behind that name
	idRoleBase   uint32 = 0xFE000100 // + index in usualRoles
	idFieldBase  uint32 = 0xFE000200 // + messageField: that field of a message follows
	idConfigBase uint32 = 0xFE000300 // + field: that field of the body follows
	idMediaBase  uint32 = 0xFD000000 // + 24 bits of the content's hash

	pieceBytes = 4
	partialTop = 0xF8
	firstNoTxt = uint32(partialTop) << 24
	lastPart   = uint32(partialTop+pieceBytes) << 24
)

// usualRoles have a header of one id each. Their order is part of the ids.
var usualRoles = [...]string{"system", "user", "assistant", "tool", "developer"}

const assistant = 2 // index in usualRoles

// appendText cuts text into pieces.
func appendText(dst []uint32, text []byte) []uint32 {
	n := len(text) / pieceBytes
	from := len(dst)
	dst = slices.Grow(dst, n+1)[:from+n]
	ids := dst[from:]
	for len(ids) >= 2 && len(text) >= 2*pieceBytes { // two at once
		w := binary.LittleEndian.Uint64(text)
		ids[0], ids[1] = uint32(w), uint32(w>>32)
		ids, text = ids[2:], text[2*pieceBytes:]
	}
	if len(ids) > 0 {
		ids[0] = binary.LittleEndian.Uint32(text)
		text = text[pieceBytes:]
	}
	if len(text) == 0 {
		return dst
	}
	var last [pieceBytes]byte
	copy(last[:], text)
	last[pieceBytes-1] = partialTop + byte(len(text))
	return append(dst, binary.LittleEndian.Uint32(last[:]))
}

// AppendPieces cuts text into pieces and appends their ids.
func AppendPieces(dst []uint32, text string) []uint32 { return appendText(dst, []byte(text)) }

// AppendText turns ids back into text; ids that are not text add nothing.
func AppendText(dst []byte, ids ...uint32) []byte {
	for _, id := range ids {
		var piece [pieceBytes]byte
		binary.LittleEndian.PutUint32(piece[:], id)
		switch {
		case id < firstNoTxt:
			dst = append(dst, piece[:]...)
		case id < lastPart:
			dst = append(dst, piece[:piece[pieceBytes-1]-partialTop]...)
		}
	}
	return dst
}

// appendRole writes the header of a message.
func appendRole(dst []uint32, role []byte) []uint32 {
	for i, usual := range usualRoles {
		if string(role) == usual {
			return append(dst, idRoleBase+uint32(i))
		}
	}
	return append(appendText(append(dst, idRole), role), idHeaderEnd)
}

// appendMedia writes the placeholder of a part that is not text.
func appendMedia(dst []uint32, part []byte) []uint32 {
	sum := sha256.Sum256(part)
	for i := 0; i < len(sum); i += 4 {
		dst = append(dst, idMediaBase|binary.LittleEndian.Uint32(sum[i:])>>8)
	}
	return dst
}

// appendSection writes a mark and then a value, a string as its text and
// anything else as JSON without white space.
func appendSection(dst []uint32, mark uint32, value []byte) []uint32 {
	dst = append(dst, mark)
	if value[0] == '"' {
		return appendText(dst, unquote(value))
	}
	return appendText(dst, compact(make([]byte, 0, len(value)), value))
}
