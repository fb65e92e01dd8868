package sddl_test

import (
	"fmt"
	"log"

	"github.com/tarn-go/tarn/smb/sddl"
)

func Example() {
	d, err := sddl.Parse("O:BAD:PAI(A;;FA;;;BA)(A;;0x1200a9;;;WD)") // owned by administrators; everyone reads
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d)
	// Output: O:BAD:PAI(A;;FA;;;BA)(A;;0x1200a9;;;WD)
}
