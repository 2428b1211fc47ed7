// A receiver in Go, standard library only: verifies X-Signature and answers 200.
// Run: SECRET=s3cret PORT=9000 go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	secret := []byte(os.Getenv("SECRET"))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		// The signature is over the bytes of the body: compute it before parsing, compare in constant time.
		mac := hmac.New(sha1.New, secret)
		mac.Write(body)
		given, _ := hex.DecodeString(r.Header.Get("X-Signature"))
		// While the secret rotates, the new one's signature is in X-Signature-Next.
		next, _ := hex.DecodeString(r.Header.Get("X-Signature-Next"))
		if expected := mac.Sum(nil); !hmac.Equal(expected, given) && !hmac.Equal(expected, next) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		// Drop what was seen before by r.Header.Get("X-Message-Id"): after a crash an event may come again.
		fmt.Println(string(body))
		w.WriteHeader(http.StatusOK)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
