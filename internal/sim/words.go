package sim

import "github.com/eppctl/eppctl/internal/request"

const endID = request.EndOfMessage

// vocabulary is what answers consist of: words of three letters and a space,
// which are one piece of the tokeniser each, so that an answer of n tokens that
// is sent back is the same n tokens.
func vocabulary() []uint32 {
	const words = "ace act add age ago aid aim air all and ant any ape arc are arm art ask " +
		"bag bar bat bay bed bee bet big bit box boy bud bug bus but buy cab can cap car cat cod cow cry cup cut " +
		"day den dew did dig dim dip dog dot dry due ear eat ebb egg elm end era eve eye fan far fat few fig fir fit fly fog for fox fun fur " +
		"gap gas gem get god got gum gun had ham has hat hay hen her hid him hip his hit hot how hut ice ill ink inn ivy jam jar jaw jet job joy " +
		"key kid kin kit lap law lay leg let lid lie lip lit log lot low mad man map mat may men met mix mob mud net new nod nor not now nut " +
		"oak oar oat odd off oil old one orb our out owl own pan paw pay pea pen pet pie pig pin pit pot pup put ram ran rat raw ray red rib rim rob rod row rub rug run rye " +
		"sad sap sat saw say sea see set she shy sip sit six sky sly son sow soy spy sum sun tan tap tar tax tea ten the tie tin tip toe ton too top toy try tub two " +
		"use van vat vet vow wag war was wax way web wed wet who why wig win wit won yak yam yes yet you zip zoo "
	return request.AppendPieces(nil, words)
}
